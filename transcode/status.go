package transcode

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// AppendStatus appends a google.rpc.Status as JSON: code, message and details.
// A detail of a type that the resolver or the program knows is shown by its
// fields, any other as {"@type": …, "value": base64}. It never fails: text
// that is not UTF-8 is shown with replacement characters.
func AppendStatus(dst []byte, s *status.Status, types Resolver) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(s.GetCode()), 10)
	dst = append(dst, `,"message":`...)
	dst = appendValidString(dst, s.GetMessage())
	dst = append(dst, `,"details":[`...)
	for i, detail := range s.GetDetails() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendDetail(dst, detail, types)
	}
	return append(dst, "]}"...)
}

// AppendDetail appends one detail of a status as JSON, as [AppendStatus] does.
func AppendDetail(dst []byte, detail *anypb.Any, types Resolver) []byte {
	start := len(dst)
	if detail.GetTypeUrl() != "" {
		o := protojson.MarshalOptions{AllowPartial: true, Resolver: &fewTypes{Resolver: linked(types), left: maxLookups(len(detail.GetValue()))}}
		out, err := guard(dst, func() ([]byte, error) { return o.MarshalAppend(dst, detail) })
		if err == nil {
			return compact(out, start)
		}
	}
	dst = append(dst[:start], `{"@type":`...)
	dst = appendValidString(dst, detail.GetTypeUrl())
	dst = append(dst, `,"value":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, detail.GetValue())
	return append(dst, `"}`...)
}

// fewTypes finds messages only so many times. protojson unmarshals an Any's
// content, and all that is inside, once per Any around it: a detail of some MiB
// of nested Any would cost minutes.
type fewTypes struct {
	Resolver
	left int
}

var errTooMuchAny = errors.New("too much Any")

func (t *fewTypes) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if t.left--; t.left < 0 {
		return nil, errTooMuchAny
	}
	return t.Resolver.FindMessageByURL(url)
}

// maxLookups bounds the Any's in a detail of size bytes, so that some 16 MiB are unmarshalled, or 16 times all of it.
func maxLookups(size int) int { return 16 + 16<<20/max(size, 1) }

// appendValidString appends any text as a JSON string.
func appendValidString(dst []byte, s string) []byte {
	dst, _ = appendString(dst, []byte(strings.ToValidUTF8(s, "\uFFFD")))
	return dst
}

// guard makes an error of a panic. protobuf-go (v1.36.12) panics while it
// unmarshals a map entry into dynamicpb whose key comes twice, the second time
// with another wire type; a backend must not be able to break more than its
// own call with that.
func guard(dst []byte, f func() ([]byte, error)) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = dst, fmt.Errorf("malformed message: %v", p)
		}
	}()
	return f()
}

// compact takes the white space out of the JSON that dst holds from start on;
// protojson puts some in at random.
func compact(dst []byte, start int) []byte {
	out := dst[:start]
	inString := false
	for i := start; i < len(dst); i++ {
		c := dst[i]
		switch {
		case inString && c == '\\':
			out = append(out, c)
			i++
			c = dst[i]
		case c == '"':
			inString = !inString
		case !inString && (c == ' ' || c == '\n' || c == '\t' || c == '\r'):
			continue
		}
		out = append(out, c)
	}
	return out
}
