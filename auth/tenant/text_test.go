package tenant

import (
	"errors"
	"hash/crc32"
	"strings"
	"testing"
)

func TestTokenRoundTrip(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		text, token := NewToken()
		got, err := ParseToken(text)
		if err != nil || got != token {
			t.Fatalf("ParseToken of a new token: %v, %v; want %v", got, err, token)
		}
		if seen[token.ID] || TokenFault(text) != "" || strings.Contains(text, ".") {
			t.Fatalf("id %s is not new, or its text is no credential", token.ID)
		}
		seen[token.ID] = true
	}
}

func TestChecksumIsCRC32(t *testing.T) {
	for _, s := range []string{"", "a", "rpg_", strings.Repeat("x", 100)} {
		sum := checksum(s)
		want := crc32.ChecksumIEEE([]byte(s))
		for i, c := range sum {
			if d := want >> (28 - 4*i) & 0xf; "0123456789abcdef"[d] != c {
				t.Errorf("checksum(%q) = %s, want %08x", s, sum, want)
				break
			}
		}
	}
}

// reSum gives text the right checksum, so that only the fault under test is left.
func reSum(text string) string {
	sum := checksum(text[:sumStart-1])
	return text[:sumStart] + string(sum[:])
}

func TestParseTokenRefuses(t *testing.T) {
	text, token := NewToken()
	swap := func(at int, c string) string { return text[:at] + c + text[at+len(c):] }
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "82 characters"},
		{"short", text[:tokenLen-1], "82 characters"},
		{"long", text + "0", "82 characters"},
		{"with a line break", text[:tokenLen-1] + "\n", "rpg_<id>"},
		{"another prefix", reSum(swap(0, "ghp_")), "rpg_<id>"},
		{"an upper-case prefix", reSum(swap(0, "RPG_")), "rpg_<id>"},
		{"another separator", reSum(swap(secretStart-1, "-")), "rpg_<id>"},
		{"no separator before the checksum", text[:sumStart-1] + "0" + text[sumStart:], "rpg_<id>"},
		{"an upper-case id", reSum(swap(idStart, "A")), "rpg_<id>"},
		{"an upper-case secret", reSum(swap(secretStart, "A")), "rpg_<id>"},
		{"a digit that base32 has not", reSum(swap(secretStart, "1")), "rpg_<id>"},
		{"stray bits at the end of the secret", reSum(swap(sumStart-2, "b")), "rpg_<id>"},
		{"an upper-case checksum", text[:sumStart] + strings.ToUpper("abcdef00"), "rpg_<id>"},
		{"a wrong checksum", text[:sumStart] + strings.Repeat("0", sumLen), "checksum"},
	} {
		got, err := ParseToken(tc.text)
		if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), tc.want) || got != (ParsedToken{}) {
			t.Errorf("%s: %v, %v; want %q", tc.name, got, err, tc.want)
			continue
		}
		if strings.Contains(err.Error(), token.ID) || strings.Contains(err.Error(), text[secretStart:secretStart+8]) {
			t.Errorf("%s: the error %q repeats the token", tc.name, err)
		}
	}
	// One character typed wrongly is always noticed.
	for i := range text {
		c := "a"
		if text[i] == 'a' {
			c = "b"
		}
		if _, err := ParseToken(swap(i, c)); err == nil {
			t.Errorf("a wrong character at %d was not noticed", i)
		}
	}
}

// What is accepted is the one spelling of its id and secret.
func FuzzParseToken(f *testing.F) {
	text, _ := NewToken()
	f.Add(text)
	f.Add(text[:len(text)-1])
	f.Add(strings.ToUpper(text))
	f.Add("rpg_aaaaaaaaaaaaaaaa_" + strings.Repeat("a", secretLen) + "_00000000")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err != nil {
			if !errors.Is(err, ErrInput) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		if spelled := reSum("rpg_" + token.ID + "_" + text[secretStart:sumStart-1] + "_????????"); spelled != text {
			t.Errorf("another spelling was accepted")
		}
		if lower := strings.ToLower(text); lower != text {
			t.Errorf("upper case was accepted")
		}
	})
}

func FuzzParseMessage(f *testing.F) {
	f.Add("revoked acme *")
	f.Add("changed acme aaaaaaaaaaaaaaaa")
	f.Add("revoked  ")
	f.Fuzz(func(t *testing.T, text string) {
		if m, ok := ParseMessage(text); ok && m.String() != text {
			t.Errorf("%q reads as %q", text, m)
		}
	})
}
