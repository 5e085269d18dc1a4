package admin

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// Page sizes.
const (
	defaultPage = 100
	maxPage     = 1000
)

func pageSize(n int32) (int, error) {
	switch {
	case n < 0:
		return 0, badField("page_size", "the page size is below 0")
	case n == 0:
		return defaultPage, nil
	default:
		return min(int(n), maxPage), nil
	}
}

// changedPaths checks a mask, and leaves out of it what only says which record
// is meant: over JSON it has whatever the body has.
func changedPaths(paths []string, but ...string) ([]string, error) {
	paths = slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return slices.Contains(but, p) })
	switch {
	case len(paths) == 0:
		return nil, badField("update_mask", "the mask names nothing to change")
	case len(paths) > maxFields:
		return nil, badField("update_mask", fmt.Sprintf("the mask has more than %d paths", maxFields))
	}
	return paths, nil
}

// maxField bounds what is shown of a name that a caller made up, in bytes.
const maxField = 64

// quoted shows what somebody wrote, cut off where it is long.
func quoted(s string) string {
	if len(s) > maxField {
		s = strings.ToValidUTF8(s[:maxField], "") + "…"
	}
	return strconv.Quote(s)
}

// someLimits gives limits with some of them changed.
func someLimits(l config.Limits, fields []string, to *adminpb.Limits) (*config.Limits, error) {
	others := limitsFrom(to)
	for _, f := range fields {
		if !setLimit(&l, f, others) {
			return nil, badField("update_mask", "there is no limit "+quoted(f))
		}
	}
	return &l, nil
}

// attempts is how often a change that depends on what was there is tried when
// others change it meanwhile.
const attempts = 5

// tryAgain tries a change again that met another one, if again says so.
func tryAgain[T any](again bool, change func() (T, error)) (T, error) {
	for i := 1; ; i++ {
		v, err := change()
		if !again || i == attempts || !errors.Is(err, tenant.ErrConflict) {
			return v, err
		}
	}
}
