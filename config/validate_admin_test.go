package config

import (
	"strings"
	"testing"
	"time"
)

func TestAdminWarnings(t *testing.T) {
	t.Parallel()
	hash := Secret(strings.Repeat("ab", 32))
	for name, tc := range map[string]struct {
		admin Admin
		want  string // empty: none
	}{
		"loopback, open":      {Admin{Address: "127.0.0.1:9091"}, ""},
		"open to others":      {Admin{Address: ":9091"}, "asks for no credential"},
		"tokens in the clear": {Admin{Address: ":9091", Operators: []Operator{{Name: "a", TokenHash: hash}}}, "in clear text"},
		"an idle audit log":   {Admin{Address: "127.0.0.1:9091", AuditLog: "x"}, "admin.audit_log: does nothing"},
		"idle authorities":    {Admin{Address: "127.0.0.1:9091", TLS: &ServerTLS{ClientCAFile: "x"}}, "admin.tls.client_ca_file: does nothing"},
		"operators, loopback": {Admin{Address: "127.0.0.1:9091", Operators: []Operator{{Name: "a", TokenHash: hash}}, AuditLog: "x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &validator{}
			v.warnAdmin(&tc.admin, "admin", time.Now())
			var all []string
			for _, f := range v.faults {
				all = append(all, f.Error())
			}
			got := strings.Join(all, "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
