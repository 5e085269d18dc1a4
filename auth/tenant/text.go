package tenant

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"hash/crc32"
)

// The text of a token is
//
//	rpg_<id>_<secret>_<checksum>
//
// with an id of 80 and a secret of 256 random bits, both in base32 of lower case
// without padding, and as checksum the CRC-32 (IEEE) of what stands before its
// underscore, in 8 lower-case hexadecimal digits. All parts have one length and
// all bits one spelling, so that a token has exactly one text. The checksum lets
// typing errors and made-up tokens be refused without asking Redis, and secret
// scanners tell a token from noise; it protects nothing.
const (
	tokenPrefix = "rpg_"
	alphabet    = "abcdefghijklmnopqrstuvwxyz234567"

	idBytes, secretBytes = 10, 32
	idLen, secretLen     = 16, 52 // in base32
	sumLen               = 8

	idStart     = len(tokenPrefix)
	secretStart = idStart + idLen + 1
	sumStart    = secretStart + secretLen + 1
	tokenLen    = sumStart + sumLen
)

// ParsedToken is a token whose text was found well-formed. It holds no secret, only
// its hash.
type ParsedToken struct {
	// ID is the public part, by which the store knows the token.
	ID string

	hash [sha256.Size]byte
}

// String shows the public part.
func (t ParsedToken) String() string { return tokenPrefix + t.ID + "_" + redacted }

// Hash is the SHA-256 of the secret.
func (t ParsedToken) Hash() [sha256.Size]byte { return t.hash }

// GoString shows the public part.
func (t ParsedToken) GoString() string { return t.String() }

var (
	errTokenLength   = &InputError{"token", "a token has 82 characters"}
	errTokenForm     = &InputError{"token", "a token is rpg_<id>_<secret>_<checksum>"}
	errTokenChecksum = &InputError{"token", "the token's checksum is wrong"}
)

// ParseToken reads the text of a token. It accepts exactly the texts that
// [Store.Issue] can make. Errors: [ErrInput]. ID is a part of text and
// keeps it in memory.
func ParseToken(text string) (ParsedToken, error) {
	if len(text) != tokenLen {
		return ParsedToken{}, errTokenLength
	}
	id, secret, sum := text[idStart:idStart+idLen], text[secretStart:secretStart+secretLen], text[sumStart:]
	if text[:idStart] != tokenPrefix || text[secretStart-1] != '_' || text[sumStart-1] != '_' ||
		!ValidID(id) || !isBase32(secret) || !isHex(sum) {
		return ParsedToken{}, errTokenForm
	}
	// 52 characters hold 260 bits: the last four must be zero.
	if last := secret[secretLen-1]; last != alphabet[0] && last != alphabet[16] {
		return ParsedToken{}, errTokenForm
	}
	if want := checksum(text[:sumStart-1]); sum != string(want[:]) {
		return ParsedToken{}, errTokenChecksum
	}
	return ParsedToken{ID: id, hash: HashOf(secret)}, nil
}

// NewToken makes a token, and its text.
func NewToken() (string, ParsedToken) {
	var random [idBytes + secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails (crypto/rand)
	enc := base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)
	id := enc.EncodeToString(random[:idBytes])
	secret := enc.EncodeToString(random[idBytes:])
	text := tokenPrefix + id + "_" + secret
	sum := checksum(text)
	return text + "_" + string(sum[:]), ParsedToken{ID: id, hash: HashOf(secret)}
}

// HashOf is the SHA-256 of a secret's text. A plain hash is enough for 256
// random bits: there is nothing to guess. The copy keeps the text off the heap.
func HashOf(secret string) [sha256.Size]byte {
	if len(secret) > MaxToken {
		return sha256.Sum256([]byte(secret)) // in Redis only: none is presented
	}
	var buf [MaxToken]byte
	return sha256.Sum256(buf[:copy(buf[:], secret)])
}

// checksum works on the string itself: crc32's own functions would have the
// secret copied to the heap.
func checksum(text string) (digits [sumLen]byte) {
	crc := ^uint32(0)
	for i := range len(text) {
		crc = crc32.IEEETable[byte(crc)^text[i]] ^ crc>>8
	}
	crc = ^crc
	for i := range digits {
		digits[i] = "0123456789abcdef"[crc>>(4*(sumLen-1-i))&0xf]
	}
	return digits
}

// ValidID tells whether id can be that of a token.
func ValidID(id string) bool { return len(id) == idLen && isBase32(id) }

func isBase32(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'f') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
