package tenant

import (
	"net/netip"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// AppChange says what of an app's record shall be another. What is nil stays.
type AppChange struct {
	Name, Contact, Priority *string
	Status                  *Status
	Scopes                  *[]string // empty: everything
	Limits                  *config.Limits
	Weight                  *int
	// IfVersion is the version that the change was made for; 0: any.
	IfVersion int64
}

// IssueOptions say what a token is issued for.
type IssueOptions struct {
	App  string
	Note string // for people: up to 256 bytes in one line
	// TTL is how long the token is valid; 0: until it is revoked.
	TTL time.Duration
	// Expires is when it ends, in place of TTL; zero: TTL says.
	Expires  time.Time
	Scopes   []string       // of what its app may call; none: all of that
	Networks []netip.Prefix // where it may be used from; none: from anywhere
	Limits   config.Limits
}

// TokenChange says what of a token's record shall be another. What is nil
// stays.
type TokenChange struct {
	Note     *string
	Expires  *time.Time // the zero time: never
	Scopes   *[]string
	Networks *[]netip.Prefix
	Limits   *config.Limits
	// IfVersion is the version that the change was made for; 0: any.
	IfVersion int64
}

// Record is one app or one token, as it is exported: one of the two is set.
type Record struct {
	App   *App
	Token *TokenRecord
}

// TokenRecord is a token with the hash of its secret.
type TokenRecord struct {
	Token
	// Hash is the SHA-256 of the secret, in lower-case hexadecimal digits.
	Hash string `json:"hash"`
}

// Existing says what an import does with a record that is there already, and is
// another.
type Existing int

// What an import can do with what is there.
const (
	ExistingFail    Existing = iota // it ends with [ErrExists]
	ExistingSkip                    // what is there stays
	ExistingReplace                 // the record takes its place, but what has ended stays so
)

// ImportOptions say how records are imported.
type ImportOptions struct {
	Existing Existing
	// DryRun finds out what would be done, and changes nothing.
	DryRun bool
}

// ImportResult is what became of an imported record.
type ImportResult string

// What can become of an imported record.
const (
	Created  ImportResult = "created"
	Replaced ImportResult = "replaced" // another was there
	Kept     ImportResult = "kept"     // the same was there, or another that stays
)
