package transcode_test

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rpcgate/rpcgate/transcode"
)

func TestHTTPBody(t *testing.T) {
	html := append(field(1, []byte("text/html")), field(2, []byte("<p>"))...)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	group := join([]byte("\x23"), field(1, html), []byte("\x24"))
	tests := []struct {
		name         string
		method       string
		responseBody string
		wire         []byte
		want         transcode.HTTPBody
		bad          bool
	}{
		{name: "whole", method: "Whole", wire: html, want: transcode.HTTPBody{ContentType: "text/html", Data: []byte("<p>")}},
		{name: "empty", method: "Whole"},
		{name: "the last counts, and others are passed over", method: "Whole", wire: join(html, field(3, []byte("x")), field(2, []byte("y")), []byte("\x08\x05")), want: transcode.HTTPBody{ContentType: "text/html", Data: []byte("y")}},
		{name: "field", method: "Field", responseBody: "body", wire: join(field(1, []byte("n")), field(2, html)), want: transcode.HTTPBody{ContentType: "text/html", Data: []byte("<p>")}},
		{name: "field in pieces", method: "Field", responseBody: "body", wire: join(field(2, html), field(2, field(2, []byte("more")))), want: transcode.HTTPBody{ContentType: "text/html", Data: []byte("more")}},
		{name: "field that is not set", method: "Field", responseBody: "body", wire: field(1, []byte("n"))},
		{name: "field further inside", method: "Field", responseBody: "inner.body", wire: join(field(3, nil), field(3, field(2, html))), want: transcode.HTTPBody{ContentType: "text/html", Data: []byte("<p>")}},
		{name: "field in a group", method: "Field", responseBody: "group.body", wire: group, want: transcode.HTTPBody{ContentType: "text/html", Data: []byte("<p>")}},
		{name: "malformed", method: "Whole", wire: []byte("\x12\x05x"), bad: true},
		{name: "malformed tag", method: "Whole", wire: []byte("\x80"), bad: true},
		{name: "malformed around the field", method: "Field", responseBody: "body", wire: []byte("\x12\x05x"), bad: true},
		{name: "malformed piece", method: "Field", responseBody: "body", wire: join(field(2, []byte("\x12\x02x")), field(2, html)), bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := compileUpload(t, protoreflect.Name(tt.method), transcode.Binding{ResponseBody: tt.responseBody})
			if m.ResponseBody() != transcode.RawBody {
				t.Fatalf("the response's body is %v", m.ResponseBody())
			}
			got, err := m.HTTPBody(tt.wire)
			var bad *transcode.ResponseError
			if errors.As(err, &bad) != tt.bad || (err != nil) != tt.bad {
				t.Fatalf("err = %v", err)
			}
			if got.ContentType != tt.want.ContentType || !bytes.Equal(got.Data, tt.want.Data) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestHTTPBodyIsNotCopied: downloads are not held twice.
func TestHTTPBodyIsNotCopied(t *testing.T) {
	data := bytes.Repeat([]byte("x"), 1<<20)
	wire := field(2, field(2, data))
	m, _ := compileUpload(t, "Field", transcode.Binding{ResponseBody: "body"})
	got, err := m.HTTPBody(wire)
	if err != nil || len(got.Data) != len(data) {
		t.Fatalf("%d bytes, err = %v", len(got.Data), err)
	}
	head := len(wire) - len(data)
	if &got.Data[0] != &wire[head] {
		t.Error("the data was copied")
	}
}

func TestResponseBodyKind(t *testing.T) {
	for _, tt := range []struct {
		method, responseBody string
		want                 transcode.BodyKind
	}{
		{"Whole", "", transcode.RawBody},
		{"Field", "", transcode.JSONBody},
		{"Field", "body", transcode.RawBody},
		{"Field", "name", transcode.JSONBody},
		{"Field", "inner", transcode.JSONBody},
	} {
		m, _ := compileUpload(t, protoreflect.Name(tt.method), transcode.Binding{ResponseBody: tt.responseBody})
		if got := m.ResponseBody(); got != tt.want {
			t.Errorf("%s, %q: %v, want %v", tt.method, tt.responseBody, got, tt.want)
		}
	}
}

// TestTwinsAreShown: two fields of one JSON name are both written, as protojson does.
func TestTwinsAreShown(t *testing.T) {
	m := compile(t, twins, transcode.Binding{}, options(0))
	wire := protowire.AppendVarint([]byte{8}, 1)
	got, err := m.AppendResponse(nil, append(wire, field(2, []byte("x"))...))
	if want := `{"fooBar":1,"fooBar":"x"}`; err != nil || string(got) != want {
		t.Errorf("got %s, err = %v, want %s", got, err, want)
	}
}
