package tenant

import "errors"

// What a store can refuse, for errors.Is; [ErrInput] apart.
var (
	// ErrNoApp means that there is no such app: neither a record nor a token.
	ErrNoApp = errors.New("no such app")
	// ErrAppExists means that the app has a record already.
	ErrAppExists = errors.New("the app exists")
	// ErrNoToken means that there is no such token.
	ErrNoToken = errors.New("no such token")
	// ErrReplaced means that a token was rotated already, or revoked, and can be
	// neither rotated (again) nor changed.
	ErrReplaced = errors.New("the token was already rotated or revoked")
	// ErrConflict means that the record is not of the version any more that the
	// change was made for: read it again.
	ErrConflict = errors.New("changed in the meantime")
	// ErrExists means that what is to be imported is there, and is another.
	ErrExists = errors.New("exists, and is another")
	// ErrTooMany means that the app has as many tokens as it may have.
	ErrTooMany = errors.New("the app has too many tokens")
	// ErrLayout means that the layout gozero cannot hold what is asked for.
	ErrLayout = errors.New("not possible in the gozero layout")
)
