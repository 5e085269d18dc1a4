package tenant

import "strings"

// Message is what the store publishes to the gateways: "<kind> <app> <id>", with
// "*" for all tokens of the app. Neither part can hold a space.
type Message struct{ Kind, App, ID string }

// What is told of a credential.
const (
	// KindRevoked: the credential is not valid any more.
	KindRevoked = "revoked"
	// KindReplaced: it is not, but what has its id now may be.
	KindReplaced = "replaced"
	// KindChanged: the credential is valid, but what is remembered of it is old.
	KindChanged = "changed"
)

// String is the text that is published.
func (m Message) String() string {
	id := m.ID
	if id == "" {
		id = "*"
	}
	return m.Kind + " " + m.App + " " + id
}

// ParseMessage reads what was published. It also refuses kinds that it does not know: a newer version's.
func ParseMessage(text string) (Message, bool) {
	parts := strings.Split(text, " ")
	if len(parts) != 3 {
		return Message{}, false
	}
	m := Message{Kind: parts[0], App: parts[1], ID: parts[2]}
	if m.ID == "*" {
		m.ID = ""
	} else if !ValidID(m.ID) {
		return Message{}, false
	}
	return m, (m.Kind == KindRevoked || m.Kind == KindReplaced || m.Kind == KindChanged) && AppFault(m.App) == ""
}
