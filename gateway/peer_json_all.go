package gateway

import (
	"bytes"
	"encoding/base64"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/transcode"
)

// allAnswerer is a peer that can be told what each endpoint answered. Others get
// one of the answers.
type allAnswerer interface {
	// sendAll keeps the answer that lists all results. failure is that of the
	// call as a whole; nil: it is a success.
	sendAll(results []endpointResult, failure *callError)
}

// sendAll makes the answer {"endpoints": [{"endpoint", "code", "response"},
// {"endpoint", "code", "message"}]}. Of a failed call only the list is kept,
// which becomes a member of its error.
func (p *jsonPeer) sendAll(results []endpointResult, failure *callError) {
	pool := p.front.buffers
	out := pool.room(256 * len(results))
	p.answer, p.lists = out, failure != nil
	if p.lists {
		*out = p.appendList(*out, results)
		return
	}
	before, after := p.front.errorFormat(p.match.Route).wrap()
	*out = append(append(*out, before...), '{')
	*out = p.appendList(*out, results)
	*out = append(append(*out, '}'), after...)
}

func (p *jsonPeer) appendList(dst []byte, results []endpointResult) []byte {
	dst = append(dst, `"endpoints":[`...)
	for i := range results {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = p.appendResult(dst, &results[i])
	}
	return append(dst, ']')
}

// appendListed appends a failure with a list of results as one more member: of
// its object, or of its data in an envelope.
func appendListed(dst []byte, failure *callError, r *routes.Route, format errorFormat, list []byte) []byte {
	dst = appendFailure(dst, failure, r, format)
	end := "}"
	if format == errorsEnvelope {
		end = "}}"
		if without, ok := bytes.CutSuffix(dst, []byte("null}")); ok { // it has no data
			dst = append(append(without, '{'), list...)
			return append(dst, end...)
		}
	}
	dst = append(append(dst[:len(dst)-len(end)], ','), list...)
	return append(dst, end...)
}

func (p *jsonPeer) appendResult(dst []byte, r *endpointResult) []byte {
	dst = append(dst, `{"endpoint":`...)
	dst = appendText(dst, r.endpoint)
	failure := r.failure
	start := len(dst)
	if failure == nil {
		var err error
		dst = append(dst, `,"code":"OK","response":`...)
		if dst, err = p.appendResponse(dst, r.answer); err == nil {
			return append(dst, '}')
		}
		dst = dst[:start] // an answer that has no form as JSON
		failure = describe(err)
	}
	dst = append(dst, `,"code":`...)
	dst = appendText(dst, codeName(failure.Code))
	dst = append(dst, `,"message":`...)
	dst = appendText(dst, failure.Message)
	if failure.Reason != "" {
		dst = append(dst, `,"reason":`...)
		dst = appendText(dst, failure.Reason)
	}
	return append(dst, '}')
}

// appendResponse appends one endpoint's response. Raw data is shown as the
// message that it is in.
func (p *jsonPeer) appendResponse(dst, wire []byte) ([]byte, error) {
	t := p.match.Route.Transcoder
	if t.ResponseBody() == transcode.RawBody {
		body, err := t.HTTPBody(wire)
		if err != nil {
			return dst, err
		}
		dst = append(dst, `{"contentType":`...)
		dst = appendText(dst, body.ContentType)
		dst = append(dst, `,"data":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, body.Data)
		return append(dst, `"}`...), nil
	}
	return t.AppendResponse(dst, wire)
}

func codeName(code codes.Code) string { return rpccode.Code(code).String() }
