package integration_test

import (
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
)

// madeUpToken is a token that is well-formed and was never issued.
func madeUpToken(n int) string {
	enc := base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	var id [10]byte
	var secret [32]byte
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return withChecksum("rpg_" + enc.EncodeToString(id[:]) + "_" + enc.EncodeToString(secret[:]))
}

// otherSecret is a well-formed token with the id of another and a wrong secret.
func otherSecret(token string) string {
	parts := strings.Split(token, "_")
	first := "a"
	if strings.HasPrefix(parts[2], "a") {
		first = "b"
	}
	return withChecksum("rpg_" + parts[1] + "_" + first + parts[2][1:])
}

func withChecksum(text string) string {
	return fmt.Sprintf("%s_%08x", text, crc32.ChecksumIEEE([]byte(text)))
}

// tokenID is the public part of a token.
func tokenID(token string) string { return strings.Split(token, "_")[1] }

// tokenIn is the token in what a command printed as JSON.
func tokenIn(t testing.TB, text string) string {
	t.Helper()
	var issued struct{ Token string }
	if err := json.Unmarshal([]byte(text), &issued); err != nil || issued.Token == "" {
		t.Fatalf("no token in %q: %v", text, err)
	}
	return issued.Token
}
