// Package tenant owns the records of apps and tokens in Redis: their keys, what
// is read of them, and each change, which is one atomic step. It promises:
//
//   - A secret is in Redis as a SHA-256 hash only (but in zRPC's own layout), and
//     in no error, log line or formatted value, except [Issued].Token itself.
//   - A change is whole or not there, and published to the gateways in the same
//     step. Two operators at once do not undo each other unseen.
//   - What is read in pages blocks Redis for no longer than a page takes.
package tenant

import (
	"net/netip"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// Status says whether an app may call.
type Status string

// What an app's status can be.
const (
	Active    Status = "active"
	Suspended Status = "suspended"
)

// App is what is known of a tenant.
type App struct {
	ID     string `json:"id"`
	Name   string `json:"name,omitzero"` // for people
	Status Status `json:"status"`
	// Scopes are what the app's tokens may call at most; none: everything.
	Scopes []string      `json:"scopes,omitempty"`
	Limits config.Limits `json:"limits,omitzero"`
	// Priority is one of the names that the config has for them; "" for its default.
	Priority string `json:"priority,omitzero"`
	// Weight is the app's share of a gateway that is full; 0: 1.
	Weight  int       `json:"weight,omitzero"`
	Contact string    `json:"contact,omitzero"`
	Created time.Time `json:"created,omitzero"` // zero for an app without a record
	Updated time.Time `json:"updated,omitzero"`
	// Version grows with each change; 0 for an app without a record.
	Version int64 `json:"version,omitzero"`
}

// Token is what is known of a token. It holds no secret.
type Token struct {
	App     string    `json:"app"`
	ID      string    `json:"id"`
	Note    string    `json:"note,omitzero"`
	Created time.Time `json:"created,omitzero"`
	// Expires is zero if the token does not expire.
	Expires time.Time `json:"expires,omitzero"`
	// Revoked is zero unless the token was revoked. It is listed for a while
	// after that, and good for nothing.
	Revoked time.Time `json:"revoked,omitzero"`
	// ReplacedBy is the id of the token that a rotation put in this one's place.
	ReplacedBy string `json:"replaced_by,omitzero"`
	// Scopes are what the token may call of what its app may; none: all of that.
	Scopes []string `json:"scopes,omitempty"`
	// Networks are where it may be used from; none: from anywhere.
	Networks []netip.Prefix `json:"networks,omitempty"`
	Limits   config.Limits  `json:"limits,omitzero"`
	// LastUsed is when a gateway last saw it, to within some minutes.
	LastUsed time.Time `json:"last_used,omitzero"`
	// Version grows with each change; 0 for a token of an older rpcgate that was
	// never changed.
	Version int64 `json:"version,omitzero"`
}

// Issued is a new token. Secret is the only copy of its text: the store keeps a
// hash. However Issued is formatted, logged or marshalled, Secret is left out;
// who shall see it must be given the field.
type Issued struct {
	Secret string
	Token
	// NewApp tells that the app had no record before.
	NewApp bool
}
