package tenant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// recordVersion is of the form of records that this version writes, and the only
// one that it reads.
const recordVersion = 1

// MaxRecord is how long the JSON of a record may be, in bytes.
const MaxRecord = 256 << 10

// maxVersion leaves room for changes: scripts count exactly up to 1<<53 only, and
// a record whose version cannot grow can be neither changed nor revoked.
const maxVersion = 1 << 52

// recordJSON is a record as JSON: one line of an export.
type recordJSON struct {
	Version int          `json:"v"`
	App     *App         `json:"app,omitempty"`
	Token   *TokenRecord `json:"token,omitempty"`
}

// MarshalJSON writes the record with the version of its form.
func (r Record) MarshalJSON() ([]byte, error) {
	return json.Marshal(recordJSON{recordVersion, r.App, r.Token})
}

// UnmarshalJSON reads what MarshalJSON writes, and nothing else: unknown fields,
// another version of the form, a name that stands twice, and what no store can
// hold are refused. Errors: [ErrInput].
func (r *Record) UnmarshalJSON(text []byte) error {
	if len(text) > MaxRecord {
		return &InputError{"", fmt.Sprintf("the record is longer than %d bytes", MaxRecord)}
	}
	// The version decides how the rest reads, so it comes first.
	var form struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(text, &form); err != nil {
		return malformedRecord(err)
	}
	if form.Version != recordVersion {
		return &InputError{"v", fmt.Sprintf("the record is of version %d; this rpcgate reads %d", form.Version, recordVersion)}
	}
	names := json.NewDecoder(bytes.NewReader(text))
	names.UseNumber()
	if err := checkNames(names); err != nil {
		return err
	}
	decode := json.NewDecoder(bytes.NewReader(text))
	decode.DisallowUnknownFields()
	var j recordJSON
	if err := decode.Decode(&j); err != nil {
		return malformedRecord(err)
	}
	if _, err := decode.Token(); !errors.Is(err, io.EOF) {
		return &InputError{"", "there is more than one record"}
	}
	read := Record{j.App, j.Token}
	if err := read.check(); err != nil {
		return err
	}
	*r = read
	return nil
}

// malformedRecord tells what is wrong with JSON, without repeating it.
func malformedRecord(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		return &InputError{kind.Field, fmt.Sprintf("%s cannot be a %.20s", kind.Field, kind.Value)}
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &InputError{"", "the record is not JSON"}
	default:
		return &InputError{"", fmt.Sprintf("the record does not read: %.200s", err)}
	}
}

// check checks that a store can hold the record.
func (r Record) check() error {
	switch {
	case (r.App == nil) == (r.Token == nil):
		return &InputError{"", "a record has either app or token"}
	case r.App != nil:
		return r.App.checkRecord()
	default:
		return r.Token.check()
	}
}

func (a App) checkRecord() error {
	if a.Created.IsZero() {
		return &InputError{"created", "the app has no time of creation"}
	}
	if a.Version < 1 {
		return &InputError{"version", "the app has no version"}
	}
	return firstFault(a.check(), checkVersion(a.Version), checkTimes(a.Created, a.Updated))
}

func (r TokenRecord) check() error {
	if _, err := parseHash(r.Hash); err != nil {
		return &InputError{"hash", "the hash is not of 64 lower-case hexadecimal digits"}
	}
	switch {
	case !ValidID(r.ID):
		return &InputError{"id", "the id of a token has 16 of a-z 2-7"}
	case r.ReplacedBy != "" && !ValidID(r.ReplacedBy):
		return &InputError{"replaced_by", "the id of a token has 16 of a-z 2-7"}
	case r.Created.IsZero():
		return &InputError{"created", "the token has no time of creation"}
	}
	return firstFault(
		ValidateApp(r.App), checkVersion(r.Version),
		TokenChange{Note: &r.Note, Scopes: &r.Scopes, Networks: &r.Networks, Limits: &r.Limits}.check(time.Time{}),
		checkTimes(r.Created, r.Expires, r.Revoked, r.LastUsed))
}

func checkVersion(version int64) error {
	if version < 0 || version > maxVersion {
		return &InputError{"version", fmt.Sprintf("the version is not between 0 and %d", int64(maxVersion))}
	}
	return nil
}

// checkTimes checks that Redis can hold times: to the millisecond, and none that
// would read as no time.
func checkTimes(times ...time.Time) error {
	for _, t := range times {
		if !t.IsZero() && (t.UnixMilli() <= 0 || t.After(latest())) {
			return &InputError{"", fmt.Sprintf("the time %s is out of all bounds", t.Format(time.RFC3339))}
		}
	}
	return nil
}
