package discovery

import (
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
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	labels := make(map[string]string, len(members))
	for key, value := range members {
		switch v := value.(type) {
		case string:
			labels[key] = v
		case bool:
			labels[key] = strconv.FormatBool(v)
		case float64:
			labels[key] = strconv.FormatFloat(v, 'f', -1, 64)
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
