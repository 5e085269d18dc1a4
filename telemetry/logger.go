package telemetry

import (
	"io"
	"log/slog"
	"net"

	"github.com/rpcgate/rpcgate/config"
)

// NewLogger returns the process's logger: JSON lines, or key=value text for
// people, from cfg.Level on. An unknown level or format is the default one;
// config.Validate refuses them before they come here. Durations are written as
// in "1.5s", and network addresses as host:port.
func NewLogger(cfg config.Log, w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: level(cfg.Level), ReplaceAttr: readable}
	if cfg.Format == "text" {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

func level(name string) slog.Level {
	var l slog.Level
	if err := l.UnmarshalText([]byte(name)); err != nil {
		return slog.LevelInfo
	}
	return l
}

// readable writes durations as in "1.5s", and addresses as host:port: JSON has
// them as nanoseconds and as structs.
func readable(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().String())
	case slog.KindAny:
		if addr, ok := a.Value.Any().(net.Addr); ok {
			a.Value = slog.StringValue(addr.String())
		}
	default:
	}
	return a
}
