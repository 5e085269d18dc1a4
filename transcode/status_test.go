package transcode_test

import (
	"encoding/json"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rpcgate/rpcgate/transcode"
)

func TestAppendStatus(t *testing.T) {
	detail := func(m proto.Message) *anypb.Any {
		a, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	tests := []struct {
		name   string
		status *status.Status
		want   string
	}{
		{"nil", nil, `{"code":0,"message":"","details":[]}`},
		{"plain", &status.Status{Code: 5, Message: "no \"such\"\nuser"}, `{"code":5,"message":"no \"such\"\nuser","details":[]}`},
		{"negative code", &status.Status{Code: -1}, `{"code":-1,"message":"","details":[]}`},
		{"message is not UTF-8", &status.Status{Message: "a\xffb"}, "{\"code\":0,\"message\":\"a\uFFFDb\",\"details\":[]}"},
		{"details that the program knows", &status.Status{Details: []*anypb.Any{
			detail(&errdetails.ErrorInfo{Reason: "TOKEN_INVALID", Domain: "rpcgate", Metadata: map[string]string{"b": "2", "a": "1, 2"}}),
			detail(durationpb.New(1e9)),
		}}, `{"code":0,"message":"","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TOKEN_INVALID","domain":"rpcgate","metadata":{"a":"1, 2","b":"2"}},{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1s"}]}`},
		{"detail that the backend knows", &status.Status{Details: []*anypb.Any{{TypeUrl: "type.googleapis.com/everything.Small", Value: []byte("\x08\x05")}}}, `{"code":0,"message":"","details":[{"@type":"type.googleapis.com/everything.Small","id":"5"}]}`},
		{"detail that nobody knows", &status.Status{Details: []*anypb.Any{{TypeUrl: "example.com/no.Such", Value: []byte{1, 2, 0xff}}}}, `{"code":0,"message":"","details":[{"@type":"example.com/no.Such","value":"AQL/"}]}`},
		{"malformed detail of a known type", &status.Status{Details: []*anypb.Any{{TypeUrl: "type.googleapis.com/everything.Small", Value: []byte{0xff}}}}, `{"code":0,"message":"","details":[{"@type":"type.googleapis.com/everything.Small","value":"/w=="}]}`},
		{"detail that protobuf-go panics on", &status.Status{Details: []*anypb.Any{{TypeUrl: "x/everything.Everything", Value: []byte("\xc2\x03\x08\x0d0000\x0a\x010")}}}, `{"code":0,"message":"","details":[{"@type":"x/everything.Everything","value":"wgMIDTAwMDAKATA="}]}`},
		{"detail without type", &status.Status{Details: []*anypb.Any{{Value: []byte{1}}, {}, nil}}, `{"code":0,"message":"","details":[{"@type":"","value":"AQ=="},{"@type":"","value":""},{"@type":"","value":""}]}`},
		{"type is not UTF-8", &status.Status{Details: []*anypb.Any{{TypeUrl: "\xff/x"}}}, "{\"code\":0,\"message\":\"\",\"details\":[{\"@type\":\"\uFFFD/x\",\"value\":\"\"}]}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := transcode.AppendStatus([]byte("before"), tt.status, testSchema().types)
			if string(got) != "before"+tt.want {
				t.Errorf("\ngot  %s\nwant before%s", got, tt.want)
			}
			if !json.Valid(got[len("before"):]) {
				t.Error("not valid JSON")
			}
		})
	}
	if got := transcode.AppendStatus(nil, &status.Status{Code: 2}, nil); string(got) != `{"code":2,"message":"","details":[]}` {
		t.Errorf("without a resolver: %s", got)
	}
}
