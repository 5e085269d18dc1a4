package config

import (
	"encoding/json"
	"reflect"
	"regexp"
	"testing"
)

// definition is what the tests look at of a schema.
type definition struct {
	Ref                  string                `json:"$ref"`
	Defs                 map[string]definition `json:"$defs"`
	Type                 string                `json:"type"`
	Description          string                `json:"description"`
	Default              any                   `json:"default"`
	Enum                 []string              `json:"enum"`
	Pattern              string                `json:"pattern"`
	AnyOf                []definition          `json:"anyOf"`
	Items                *definition           `json:"items"`
	Properties           map[string]definition `json:"properties"`
	AdditionalProperties any                   `json:"additionalProperties"`
	Required             []string              `json:"required"`
}

func TestSchemaSaysWhatTheTypesSay(t *testing.T) {
	t.Parallel()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	var schema definition
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	if schema.Ref != "#/$defs/Config" {
		t.Errorf("the root is %q", schema.Ref)
	}
	for _, s := range sections(reflect.TypeFor[Config]()) {
		d, ok := schema.Defs[s.section.Name()]
		if !ok || d.Type != "object" || d.AdditionalProperties != false || d.Description == "" {
			t.Errorf("%s is defined as %+v", s.section, d)
		}
		if got, want := len(d.Properties), len(fieldsOf(s.section)); got != want {
			t.Errorf("%s has %d keys, want %d", s.section, got, want)
		}
		for _, f := range fieldsOf(s.section) {
			p := d.Properties[f.key]
			if p.Description == "" {
				t.Errorf("%s.%s has no description", s.section, f.key)
			}
			if want := f.Tag.Get("default"); want != "" && p.Default == nil {
				t.Errorf("%s.%s has no default, want %s", s.section, f.key, want)
			}
			if f.Type.Kind() == reflect.Slice && p.Items != nil {
				p.AnyOf = p.Items.AnyOf
			}
			if enum := f.enum(); enum != nil && (len(p.AnyOf) == 0 || !reflect.DeepEqual(p.AnyOf[0].Enum, enum)) {
				t.Errorf("%s.%s has not the enum %q: %+v", s.section, f.key, enum, p)
			}
		}
	}
	if got := schema.Defs["Backend"].Required; !reflect.DeepEqual(got, []string{"name"}) {
		t.Errorf("of a backend %q are required", got)
	}
	if got := schema.Defs["Log"].Properties["success_sample"].Default; got != 0.01 {
		t.Errorf("log.success_sample has the default %v", got)
	}
	if got := schema.Defs["Compression"].Properties["encodings"].Default; !reflect.DeepEqual(got, []any{"zstd", "gzip"}) {
		t.Errorf("http.compression.encodings has the default %v", got)
	}
	if got := schema.Defs["Backend"].Properties["method_timeouts"]; got.Type != "object" {
		t.Errorf("method_timeouts is %+v", got)
	}
}

func TestSchemaPatterns(t *testing.T) {
	t.Parallel()
	for pattern, texts := range map[string]map[string]bool{
		durationPattern: {"0": true, "0s": true, "1.5h": true, "1h30m": true, "500ms": true, ".5s": true, "5": false, "2d": false, "": false, "2s ": false},
		sizePattern:     {"0": true, "512": true, "4MiB": true, "1GB": true, "1B": true, "4mb": false, "1.5MiB": false, "": false, "MiB": false},
	} {
		for text, want := range texts {
			if got := regexp.MustCompile(pattern).MatchString(text); got != want {
				t.Errorf("%q matches %s: %t", text, pattern, got)
			}
			var err error
			if pattern == sizePattern {
				_, err = ParseSize(text)
			} else {
				_, err = parseDuration(text)
			}
			if (err == nil) != want {
				t.Errorf("%q is read with %v, but the pattern says %t", text, err, want)
			}
		}
	}
}
