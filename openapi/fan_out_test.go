package openapi

import (
	"encoding/json"
	"testing"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
)

// A route to all endpoints answers with a list of what each said.
func TestFanOut(t *testing.T) {
	files := compileFiles(t, "testdata", "features.proto")
	doc := load(t, New(table(t, []routes.Input{{Backend: backend("features"), Descriptors: files}},
		config.Route{Method: "features.Open/Say", To: "all", HTTP: &config.HTTPRule{Post: "/say-all", Body: "*"}}), Options{}))
	answer := doc.Paths.Value("/say-all").Post.Responses.Value("200").Value.Content[mediaJSON].Schema.Value
	for text, fits := range map[string]bool{
		`{"endpoints": []}`: true,
		`{"endpoints": [{"endpoint": "h:1", "code": "OK", "response": {}}, {"endpoint": "h:2", "code": "UNAVAILABLE", "message": "m", "reason": "R"}]}`: true,
		`{"endpoints": [{"endpoint": "h:1"}]}`:             false,
		`{"endpoints": [{"endpoint": "h:1", "code": 14}]}`: false,
		`{}`: false,
	} {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if err := answer.VisitJSON(value); (err == nil) != fits {
			t.Errorf("%s: %v", text, err)
		}
	}
}
