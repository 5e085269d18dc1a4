package config

import (
	"math"
	"reflect"
	"strconv"
	"time"
)

// valueError says why a text is not a value of the type wanted. The reason
// does not repeat the text, which may be secret; the hint may.
type valueError struct{ reason, hint string }

func (e *valueError) Error() string {
	if e.hint == "" {
		return e.reason
	}
	return e.reason + "; " + e.hint
}

// parseScalar reads a text as a value of a scalar type (see [isScalar]). The
// error is a *valueError.
func parseScalar(t reflect.Type, text string) (reflect.Value, error) {
	v := reflect.New(t).Elem()
	switch t {
	case durationType:
		d, err := parseDuration(text)
		if err != nil {
			return v, err
		}
		v.SetInt(int64(d))
		return v, nil
	case sizeType:
		s, err := ParseSize(text)
		if err != nil {
			return v, err
		}
		v.SetInt(int64(s))
		return v, nil
	}
	switch t.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		switch text {
		case "true", "True", "TRUE":
			v.SetBool(true)
		case "false", "False", "FALSE":
		default:
			return v, &valueError{reason: "is neither true nor false"}
		}
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, t.Bits())
		if err != nil {
			return v, &valueError{reason: "is not a whole number in the range allowed"}
		}
		v.SetInt(n)
	case reflect.Uint32:
		n, err := strconv.ParseUint(text, 10, t.Bits())
		if err != nil {
			return v, &valueError{reason: "is not a whole number from 0 to " + strconv.FormatUint(math.MaxUint32, 10)}
		}
		v.SetUint(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return v, &valueError{reason: "is not a number"}
		}
		v.SetFloat(n)
	default:
		panic("config: " + t.String() + " is not a scalar type")
	}
	return v, nil
}

// parseDuration reads a duration as [time.ParseDuration] does.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, &valueError{reason: "has no unit: write a duration like 500ms, 2s or 1h30m", hint: "did you mean " + text + "s?"}
	}
	return 0, &valueError{reason: "is not a duration: write one like 500ms, 2s or 1h30m"}
}
