package discovery

import (
	"bytes"
	"encoding/json"
	"strconv"

	"google.golang.org/grpc/resolver"
)

// Labels returns the metadata that an endpoint registered as flat texts: the
// scalar members of the JSON object; nil where there are none.
func Labels(e resolver.Endpoint) map[string]string {
	raw := Metadata(e)
	if raw == nil {
		return nil
	}
	var members map[string]any
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber() // as they were written: a version 1.10 is not 1.1
	if numbers.Decode(&members) != nil {
		return nil
	}
	labels := make(map[string]string, len(members))
	for key, value := range members {
		switch v := value.(type) {
		case string:
			labels[key] = v
		case bool:
			labels[key] = strconv.FormatBool(v)
		case json.Number:
			labels[key] = v.String()
		}
	}
	return labels
}

// metadataOf is the metadata of an endpoint with these labels; a set of labels
// has one text.
func metadataOf(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	text, err := json.Marshal(labels) // by sorted keys
	if err != nil {
		return "" // texts can always be written
	}
	return string(text)
}
