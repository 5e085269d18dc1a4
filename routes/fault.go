package routes

import "strings"

// A Fault is one thing that keeps the table from being what the config and the
// descriptors ask for.
type Fault struct { //nolint:errname // as config.Fault is
	Key   string // the config key it is about, such as routes[2].http.get; empty if it isn't about the config
	Where string // what it is about: a method, a backend; may be empty
	Err   error
}

func (f *Fault) Error() string {
	parts := make([]string, 0, 3)
	for _, s := range []string{f.Key, f.Where, f.Err.Error()} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// Unwrap gives the fault without its place.
func (f *Fault) Unwrap() error { return f.Err }
