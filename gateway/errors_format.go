package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/transcode"
)

// errorFormat is how callers of JSON are told of errors; its values are those of
// http.errors.
type errorFormat uint8

const (
	// errorsStatus is google.rpc.Status: code, message, details.
	errorsStatus errorFormat = iota
	// errorsProblem is RFC 9457. type is left at its default, about:blank, so that
	// title is the HTTP status's own name; code (google.rpc.Code's name), reason
	// (of an ErrorInfo among the details) and details are extensions.
	errorsProblem
	// errorsEnvelope is code, msg and data. Successes are wrapped as well, with
	// code 0 and the answer as data; an error's data are its reason and details.
	// The HTTP status stays the real one.
	errorsEnvelope

	errorFormats = iota
)

func parseErrorFormat(name string) errorFormat {
	switch name {
	case "problem":
		return errorsProblem
	case "envelope":
		return errorsEnvelope
	default:
		return errorsStatus
	}
}

// errorFormat is the format of a route's errors; nil: of calls that no route
// matched.
func (f *httpFront) errorFormat(r *routes.Route) errorFormat {
	if r != nil && r.Errors != "" {
		return parseErrorFormat(r.Errors)
	}
	return parseErrorFormat(f.cfg.Errors)
}

// contentType is the media type of a body that is one error and nothing else.
func (f errorFormat) contentType() string {
	if f == errorsProblem {
		return "application/problem+json"
	}
	return "application/json"
}

// wrap is what stands before and after each message of a success; nothing where
// successes are bare. In a stream, of whichever kind, it stands around each
// message.
func (f errorFormat) wrap() (before, after string) {
	if f == errorsEnvelope {
		return `{"code":0,"msg":"ok","data":`, "}"
	}
	return "", ""
}

// appendFailure appends a failure as one JSON object on one line, with the
// details' types taken from the route's backend; the route may be nil.
func appendFailure(dst []byte, failure *callError, r *routes.Route, format errorFormat) []byte {
	if failure.fixed != nil {
		return append(dst, failure.fixed.json[format]...)
	}
	var types transcode.Resolver
	if r != nil {
		types = r.Types
	}
	s := failure.Status().Proto()
	switch format {
	case errorsProblem:
		return appendProblem(dst, s, failure.HTTPStatus(), types)
	case errorsEnvelope:
		return appendEnvelope(dst, s, types)
	default:
		return transcode.AppendStatus(dst, s, types)
	}
}

// appendStreamFailure appends a failure as it ends a stream that has begun: an
// object with one member, "error"; or an envelope, as the messages are, whose
// code tells them apart.
func appendStreamFailure(dst []byte, failure *callError, r *routes.Route, format errorFormat) []byte {
	if format == errorsEnvelope {
		return appendFailure(dst, failure, r, format)
	}
	dst = append(dst, `{"error":`...)
	dst = appendFailure(dst, failure, r, format)
	return append(dst, '}')
}

func appendProblem(dst []byte, s *spb.Status, httpStatus int, types transcode.Resolver) []byte {
	title := http.StatusText(httpStatus)
	if title == "" { // 499 is nginx's own
		title = codes.Code(s.GetCode()).String()
	}
	dst = append(dst, `{"type":"about:blank","title":`...)
	dst = appendText(dst, title)
	dst = append(dst, `,"status":`...)
	dst = strconv.AppendInt(dst, int64(httpStatus), 10)
	dst = append(dst, `,"detail":`...)
	dst = appendText(dst, s.GetMessage())
	dst = append(dst, `,"code":`...)
	dst = appendText(dst, code.Code(s.GetCode()).String())
	dst = append(dst, ',')
	dst = appendReasonAndDetails(dst, s, types)
	return append(dst, '}')
}

func appendEnvelope(dst []byte, s *spb.Status, types transcode.Resolver) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(s.GetCode()), 10)
	dst = append(dst, `,"msg":`...)
	dst = appendText(dst, s.GetMessage())
	dst = append(dst, `,"data":`...)
	if len(s.GetDetails()) == 0 {
		return append(dst, "null}"...)
	}
	dst = append(dst, '{')
	dst = appendReasonAndDetails(dst, s, types)
	return append(dst, "}}"...)
}

// appendReasonAndDetails appends the members "reason", where there is one, and
// "details".
func appendReasonAndDetails(dst []byte, s *spb.Status, types transcode.Resolver) []byte {
	var info errdetails.ErrorInfo
	for _, detail := range s.GetDetails() {
		if detail.MessageIs(&info) && detail.UnmarshalTo(&info) == nil && info.GetReason() != "" {
			dst = append(dst, `"reason":`...)
			dst = appendText(dst, info.GetReason())
			dst = append(dst, ',')
			break
		}
	}
	dst = append(dst, `"details":[`...)
	for i, detail := range s.GetDetails() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = transcode.AppendDetail(dst, detail, types)
	}
	return append(dst, ']')
}

// appendText appends any text as a JSON string; what is not UTF-8 becomes
// replacement characters.
func appendText(dst []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		return append(dst, `""`...) // which Marshal gives of no string
	}
	return append(dst, quoted...)
}
