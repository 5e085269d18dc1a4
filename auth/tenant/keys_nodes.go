package tenant

// Nodes is the sorted set of the gateways that run, by their last sign of life
// in Unix milliseconds.
func (k Keys) Nodes() string { return k.prefix + ":nodes" }

// Questions is the channel on which gateways are asked what they make of a
// credential.
func (k Keys) Questions() string { return k.prefix + ":questions" }

// Answers is the list of what they say to one question.
func (k Keys) Answers(nonce string) string { return k.prefix + ":answers:" + nonce }
