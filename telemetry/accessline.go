package telemetry

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"
)

// MaxLoggedBody is how many bytes of a body are written into the access log.
const MaxLoggedBody = 4 << 10

// maxLoggedText bounds what a caller chose (verb, method, request id, claimed app) and what may
// quote it (the error).
const maxLoggedText = 512

// write writes r's line. Fields without a value are left out, except those that
// a reader filters by.
func write(ctx context.Context, log *slog.Logger, level slog.Level, r Record, suppressed int64) {
	attrs := make([]slog.Attr, 0, 28)
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	attrs = append(attrs, slog.String("protocol", r.Protocol))
	text("verb", clip(r.Verb))
	attrs = append(attrs,
		slog.String("method", clip(r.Method)),
		slog.String("route", r.Route),
		slog.String("backend", r.Backend),
		slog.String("app", r.App),
		slog.String("code", codeName(codeIndex(r.Code))),
	)
	if r.HTTPStatus != 0 {
		attrs = append(attrs, slog.Int("http_status", r.HTTPStatus))
	}
	attrs = append(attrs,
		slog.Float64("duration_ms", float64(r.Duration.Round(time.Microsecond))/float64(time.Millisecond)),
		slog.Int64("bytes_in", r.BytesIn),
		slog.Int64("bytes_out", r.BytesOut),
	)
	text("token_id", r.TokenID)
	text("claimed_app", clip(r.ClaimedApp))
	text("claimed_token_id", clip(r.ClaimedTokenID))
	if r.ClientIP.IsValid() {
		text("client_ip", r.ClientIP.String())
	}
	text("request_id", clip(r.RequestID))
	text("reason", r.Reason)
	if r.Attempts > 1 {
		attrs = append(attrs, slog.Int("attempts", r.Attempts))
	}
	text("endpoint", r.Endpoint)
	text("fallback", r.Fallback)
	if r.BusinessFailure {
		text("outcome", "failed")
	}
	if r.Err != nil {
		text("error", clip(r.Err.Error()))
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int64("suppressed", suppressed))
	}
	text("request_body", bodyText(r.RequestBody))
	text("response_body", bodyText(r.ResponseBody))
	log.LogAttrs(ctx, level, "call", attrs...)
}

// bodyText is a body in base64, with a note of how much was cut off. Bodies are
// protobuf's bytes: even where they happen to be UTF-8, they are no text.
func bodyText(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	head := b[:min(len(b), MaxLoggedBody)]
	text := base64.StdEncoding.EncodeToString(head)
	if cut := len(b) - len(head); cut > 0 {
		text += fmt.Sprintf("… (%d bytes more)", cut)
	}
	return text
}

// clip bounds a text that a caller may have made long.
func clip(s string) string {
	if len(s) <= maxLoggedText {
		return s
	}
	return string(cutRune([]byte(s[:maxLoggedText]))) + "…"
}

// cutRune drops the beginning of a rune that b's end cut in two.
func cutRune(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}
