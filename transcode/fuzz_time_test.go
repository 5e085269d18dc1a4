package transcode

import (
	"bytes"
	"testing"
	"time"
)

// FuzzTime compares times with time.Parse.
func FuzzTime(f *testing.F) {
	for _, text := range []string{
		"2020-01-02T03:04:05Z", "2020-01-02T03:04:05.123456789+02:00", "2020-02-29T00:00:00Z", "2021-02-29T00:00:00Z", "1900-02-29T00:00:00Z",
		"2000-02-29T23:59:59.9-23:59", "0000-01-01T00:00:00Z", "2020-04-31T00:00:00Z", "2020-13-01T00:00:00Z", "2020-00-01T00:00:00Z", "2020-01-00T00:00:00Z",
		"2020-01-02T24:00:00Z", "2020-01-02T03:60:05Z", "2020-01-02T03:04:60Z", "2020-01-02T03:04:05.1234567890Z", "2020-01-02T03:04:05.Z", "2020-01-02T03:04:05+24:00",
		"2020-01-02T3:04:05Z", "2020-01-02T03:04:05,5Z", "2020-01-02t03:04:05z", "2020-01-02T03:04:05", "2020-01-02T03:04:05.5", "2020-01-02T03:04:05+0200", "2020-01-02T03:04:05+02:0",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want, err := time.Parse(time.RFC3339Nano, string(text))
		// As protojson counts the digits.
		i, j := bytes.LastIndexByte(text, '.'), bytes.LastIndexAny(text, "Z-+")
		wanted := err == nil && (i < 0 || j < i || j-i <= len(".999999999"))
		got, ok := parseTime(text)
		if ok != wanted || ok && !got.Equal(want) {
			t.Errorf("%q: %v, %v, want %v (%v)", text, got, ok, want, err)
		}
	})
}
