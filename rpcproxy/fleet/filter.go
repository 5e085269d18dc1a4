package fleet

import "github.com/rpcgate/rpcgate/config"

// Filter tells which endpoints a call may go to, by their metadata. One is
// made for each distinct rule when a route table is built, and shared by all
// calls: it is compared by its address, and a set keeps what it found for it.
//
// It is a wish, for availability comes first: where no endpoint passes that is
// connected and well, the call goes to one that no rule names, or else to any.
type Filter struct {
	match config.Match
	not   []config.Match
}

// NewFilter makes a filter that endpoints pass which match, unless they match
// one of not, which are the rules of other calls. An empty match matches all, an
// empty one among not is passed over.
func NewFilter(match config.Match, not ...config.Match) *Filter {
	f := &Filter{match: match}
	for _, m := range not {
		if len(m) > 0 {
			f.not = append(f.not, m)
		}
	}
	return f
}

// passes tells whether the filter's calls go to the endpoint.
func (f *Filter) passes(e *Endpoint) bool {
	return f == nil || matches(f.match, e.Info().Metadata) && f.spares(e)
}

// spares tells whether the endpoint is not left to other calls.
func (f *Filter) spares(e *Endpoint) bool {
	if f == nil {
		return true
	}
	for _, m := range f.not {
		if matches(m, e.Info().Metadata) {
			return false
		}
	}
	return true
}

func matches(m config.Match, metadata map[string]string) bool {
	for key, value := range m {
		if got, ok := metadata[key]; !ok || got != value {
			return false
		}
	}
	return true
}
