package auth

import (
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// secretStart is where the secret begins in the text of a token: behind "rpg_",
// an id of 16 characters, and "_".
const secretStart = 21

func goZero() config.Auth { return config.Auth{GoZero: &config.GoZero{Key: "rpc:apps"}} }

// issue issues a token that lives for an hour.
func issue(t *testing.T, s *tenant.Store, app string) tenant.Issued {
	t.Helper()
	issued, err := s.Issue(t.Context(), tenant.IssueOptions{App: app, Note: "for " + app, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

func credential(i tenant.Issued) Credential { return Credential{i.App, i.Secret} }

// reSum gives the text of a token the right checksum, so that only the fault
// under test is left.
func reSum(text string) string {
	body := text[:len(text)-9]
	return fmt.Sprintf("%s_%08x", body, crc32.ChecksumIEEE([]byte(body)))
}
