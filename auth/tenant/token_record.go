package tenant

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/rpcgate/rpcgate/config"
)

// The fields of a token's hash are those of [Token], and
//
//	hash   SHA-256 of the secret, in hexadecimal digits
//	epoch  its app's when it was made
//	op     what the last change drew for itself, see script.go; an import, with what it did

// listSeparator stands in neither a scope nor a network.
const listSeparator = ","

// terms are what a token is given for life, as a script takes them.
func terms(scopes []string, networks []netip.Prefix, limits config.Limits, note string) ([]any, error) {
	text, err := formatLimits(limits)
	if err != nil {
		return nil, err
	}
	return []any{
		"note", note, "scopes", strings.Join(scopes, listSeparator), "networks", formatNetworks(networks), "limits", text,
	}, nil
}

// changedFields are those of c, as a script takes them; the expiry apart.
func (c TokenChange) changedFields() ([]any, error) {
	var fields []any
	if c.Note != nil {
		fields = append(fields, "note", *c.Note)
	}
	if c.Scopes != nil {
		fields = append(fields, "scopes", strings.Join(*c.Scopes, listSeparator))
	}
	if c.Networks != nil {
		fields = append(fields, "networks", formatNetworks(*c.Networks))
	}
	if c.Limits != nil {
		text, err := formatLimits(*c.Limits)
		if err != nil {
			return nil, err
		}
		fields = append(fields, "limits", text)
	}
	return fields, nil
}

// tokenFieldNames are what [readToken] reads.
func tokenFieldNames() []string {
	return []string{
		"hash", "created", "expires", "note", "revoked", "replaced_by", "scopes", "networks", "limits", "last_used", "version", "epoch",
	}
}

// readToken reads a token's hash. One that all of its app's were revoked with is
// revoked.
func readToken(app, id string, fields map[string]string, l life) (t Token, hash [sha256.Size]byte, err error) {
	t = Token{
		App: app, ID: id, Note: fields["note"], ReplacedBy: fields["replaced_by"], Scopes: parseList(fields["scopes"]),
	}
	var errs [9]error
	hash, errs[0] = parseHash(fields["hash"])
	t.Created, errs[1] = instant(fields["created"])
	t.Expires, errs[2] = instant(fields["expires"])
	t.Revoked, errs[3] = instant(fields["revoked"])
	t.LastUsed, errs[4] = instant(fields["last_used"])
	t.Networks, errs[5] = parseNetworks(fields["networks"])
	t.Limits, errs[6] = parseLimits(fields["limits"])
	t.Version, errs[7] = parseInt(fields["version"])
	epoch, epochErr := parseInt(fields["epoch"])
	errs[8] = epochErr
	if err := errors.Join(errs[:]...); err != nil {
		return Token{}, [sha256.Size]byte{}, fmt.Errorf("token %s of app %s is damaged: %w", id, app, err)
	}
	if epoch < l.epoch && t.Revoked.IsZero() {
		t.Revoked = l.revoked
	}
	return t, hash, nil
}

func parseHash(digits string) (hash [sha256.Size]byte, err error) {
	if len(digits) != hex.EncodedLen(len(hash)) || !isHex(digits) {
		return hash, errors.New("its hash is none")
	}
	_, err = hex.Decode(hash[:], []byte(digits))
	return hash, err
}

func parseList(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, listSeparator)
}

func formatNetworks(networks []netip.Prefix) string {
	all := make([]string, len(networks))
	for i, n := range networks {
		all[i] = n.String()
	}
	return strings.Join(all, listSeparator)
}

func parseNetworks(text string) ([]netip.Prefix, error) {
	parts := parseList(text)
	if parts == nil {
		return nil, nil
	}
	networks := make([]netip.Prefix, len(parts))
	for i, part := range parts {
		var err error
		if networks[i], err = netip.ParsePrefix(part); err != nil {
			return nil, errors.New("a network is none")
		}
	}
	return networks, nil
}

// formatLimits writes limits as JSON; those that bound nothing are "".
func formatLimits(l config.Limits) (string, error) {
	if l == (config.Limits{}) {
		return "", nil
	}
	text, err := json.Marshal(l)
	return string(text), err
}

func parseLimits(text string) (l config.Limits, err error) {
	if text == "" {
		return l, nil
	}
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return config.Limits{}, errors.New("its limits are none")
	}
	return l, nil
}
