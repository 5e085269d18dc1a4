package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"strings"
)

// operatorPrefix tells secret scanners, and people, what a token is.
const operatorPrefix = "rpgop_"

// NewOperatorToken makes a token of 256 random bits for an operator, and the
// hash of it that a configuration has.
func NewOperatorToken() (token, hash string) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails (crypto/rand)
	token = operatorPrefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random[:]))
	return token, HashOperatorToken(token)
}

// HashOperatorToken is the SHA-256 of a token in hex. A plain hash is enough for
// 256 random bits: there is nothing to guess.
func HashOperatorToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// isOperatorToken tells what has a token's form, which an app id could have too.
func isOperatorToken(s string) bool {
	return strings.HasPrefix(s, operatorPrefix) && len(s) == len(operatorPrefix)+base32.StdEncoding.WithPadding(base32.NoPadding).EncodedLen(sha256.Size)
}
