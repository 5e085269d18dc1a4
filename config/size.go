package config

import (
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as a plain number or with a unit: 512KiB, 4MiB, 1GiB.
type Size int64

// sizeUnits are the units of a [Size], binary ones first, so that String finds them first.
var sizeUnits = [...]struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3},
	{"B", 1},
}

// ParseSize reads a number of bytes: digits, then nothing or one of the units
// B, KB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024).
func ParseSize(text string) (Size, error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	number, unit := text[:digits], text[digits:]
	if number == "" {
		return 0, &valueError{reason: "is not a size: write digits and a unit, like 64KiB or 4MiB"}
	}
	factor, ok := sizeFactor(unit)
	if !ok {
		e := &valueError{reason: "is not a size: its unit is none of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"}
		if near := nearestUnit(unit); near != "" {
			e.hint = "did you mean " + number + near + "?"
		}
		return 0, e
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64/factor {
		return 0, &valueError{reason: "is larger than any size"}
	}
	return Size(n * factor), nil
}

func sizeFactor(unit string) (bytes int64, ok bool) {
	if unit == "" {
		return 1, true
	}
	for _, u := range sizeUnits {
		if u.name == unit {
			return u.bytes, true
		}
	}
	return 0, false
}

// nearestUnit knows the common misspellings: wrong case, a space before, the B left out.
func nearestUnit(unit string) string {
	unit = strings.TrimSpace(unit)
	for _, u := range sizeUnits {
		if strings.EqualFold(u.name, unit) || strings.EqualFold(u.name, unit+"B") || strings.EqualFold(u.name, unit+"iB") {
			return u.name
		}
	}
	return ""
}

// String writes the size in the largest unit that needs no fraction; ParseSize reads it back.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if n := int64(s); n != 0 && n%u.bytes == 0 && u.bytes > 1 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalText writes the size as String does.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the size as ParseSize does.
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSize(string(text))
	return err
}
