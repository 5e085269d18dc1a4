package tenant

import (
	"encoding/json"
	"fmt"
	"strings"
)

// checkNames refuses the next value of JSON if an object in it has a name twice,
// in whichever case: encoding/json takes the last of them, and whoever looks over
// a record before it is imported may have seen another.
func checkNames(decode *json.Decoder) error {
	token, err := decode.Token()
	if err != nil {
		return malformedRecord(err)
	}
	kind, nested := token.(json.Delim)
	if !nested {
		return nil
	}
	seen := make(map[string]bool)
	for decode.More() {
		if kind == '{' {
			if token, err = decode.Token(); err != nil {
				return malformedRecord(err)
			}
			name, _ := token.(string)
			// Upper case comes first: encoding/json has ſ for an s, too.
			if name = strings.ToLower(strings.ToUpper(name)); seen[name] {
				return &InputError{"", fmt.Sprintf("the record has %.40q twice", name)}
			}
			seen[name] = true
		}
		if err := checkNames(decode); err != nil {
			return err
		}
	}
	if _, err = decode.Token(); err != nil { // of its end
		return malformedRecord(err)
	}
	return nil
}
