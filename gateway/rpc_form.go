package gateway

import (
	"mime"
	"net/http"
	"strings"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

// rpcForm is how the messages of an RPC over HTTP are written.
type rpcForm struct {
	proto     protocol
	enveloped bool   // messages stand in envelopes; else the body is the one message
	json      bool   // messages are JSON; else protobuf
	text      bool   // gRPC-Web-text: the body is base64
	answer    string // the content type of the answer
}

// rpcFormOf tells the form of a request. With an error, what it gives is still
// good for answers.
func rpcFormOf(r *http.Request, proto protocol) (form rpcForm, get *wire.ConnectGet, err error) {
	ok := false
	if r.Method == http.MethodGet && proto == protocolConnect {
		parsed, escaped := wire.ParseConnectGet(r.URL.RawQuery)
		get = &parsed
		form, ok = exactForm("application/" + parsed.Encoding)
		ok = ok && escaped && !form.enveloped
	} else {
		form, ok = formOfType(contentType(r.Header))
	}
	if ok && form.proto == proto {
		return form, get, nil
	}
	fallback := "application/json"
	switch proto {
	case protocolGRPC:
		fallback = "application/grpc"
	case protocolGRPCWeb:
		fallback = "application/grpc-web"
	}
	form, _ = exactForm(fallback)
	return form, get, errCodec
}

// formOfType tells the form of a content type. Neither case nor parameters
// matter, but that text is in UTF-8.
func formOfType(contentType string) (form rpcForm, ok bool) {
	if form, ok = exactForm(contentType); ok {
		return form, true
	}
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return rpcForm{}, false
	}
	if charset, ok := parameters["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return rpcForm{}, false
	}
	return exactForm(kind)
}

func exactForm(contentType string) (form rpcForm, ok bool) {
	grpc := func(p protocol) rpcForm { return rpcForm{proto: p, enveloped: true, answer: contentType} }
	switch contentType {
	case "application/grpc", "application/grpc+proto":
		form = grpc(protocolGRPC)
	case "application/grpc+json":
		form = grpc(protocolGRPC)
		form.json = true
	case "application/grpc-web", "application/grpc-web+proto":
		form = grpc(protocolGRPCWeb)
	case "application/grpc-web+json":
		form = grpc(protocolGRPCWeb)
		form.json = true
	case "application/grpc-web-text", "application/grpc-web-text+proto":
		form = grpc(protocolGRPCWeb)
		form.text = true
	case "application/connect+proto":
		form = grpc(protocolConnect)
	case "application/connect+json":
		form = grpc(protocolConnect)
		form.json = true
	case "application/proto":
		form = rpcForm{proto: protocolConnect, answer: contentType}
	case "application/json":
		form = rpcForm{proto: protocolConnect, json: true, answer: contentType}
	default:
		return rpcForm{}, false
	}
	return form, true
}

// acceptPost lists the content types that a method can be called with, in the
// protocols that are spoken.
func acceptPost(speaks [protocolCount]bool, streams bool) string {
	var kinds []string
	if speaks[protocolGRPC] {
		kinds = append(kinds, "application/grpc", "application/grpc+proto", "application/grpc+json")
	}
	if speaks[protocolGRPCWeb] {
		kinds = append(kinds, "application/grpc-web", "application/grpc-web+proto", "application/grpc-web+json",
			"application/grpc-web-text", "application/grpc-web-text+proto")
	}
	switch {
	case speaks[protocolConnect] && streams:
		kinds = append(kinds, "application/connect+proto", "application/connect+json")
	case speaks[protocolConnect]:
		kinds = append(kinds, "application/proto", "application/json")
	}
	return strings.Join(kinds, ", ")
}
