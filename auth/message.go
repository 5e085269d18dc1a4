package auth

import "strings"

// message is what the store publishes to the gateways: "<kind> <app> <id>", with
// "*" for all tokens of the app. Neither part can hold a space.
type message struct{ kind, app, id string }

const (
	// kindRevoked: the credential is not valid any more.
	kindRevoked = "revoked"
	// kindChanged: the credential is valid, but what is remembered of it is old.
	kindChanged = "changed"
)

func (m message) String() string {
	id := m.id
	if id == "" {
		id = "*"
	}
	return m.kind + " " + m.app + " " + id
}

// parseMessage also refuses kinds that it does not know: a newer version's.
func parseMessage(text string) (message, bool) {
	parts := strings.Split(text, " ")
	if len(parts) != 3 {
		return message{}, false
	}
	m := message{kind: parts[0], app: parts[1], id: parts[2]}
	if m.id == "*" {
		m.id = ""
	} else if !validID(m.id) {
		return message{}, false
	}
	return m, (m.kind == kindRevoked || m.kind == kindChanged) && appFault(m.app) == ""
}
