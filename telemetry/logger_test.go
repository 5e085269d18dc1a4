package telemetry

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

func TestNewLogger(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		cfg  config.Log
		want []string
		not  []string
	}{
		{"json from info on", config.Log{Level: "info", Format: "json"}, []string{`"msg":"shown"`, `"after":"1.5s"`, `"at":"[::1]:80"`}, []string{"hidden"}},
		{"text", config.Log{Level: "info", Format: "text"}, []string{`msg=shown after=1.5s at=[::1]:80`}, []string{"hidden"}},
		{"debug", config.Log{Level: "debug", Format: "json"}, []string{"shown", "hidden"}, nil},
		{"error", config.Log{Level: "error", Format: "json"}, nil, []string{"shown", "hidden"}},
		{"zero value", config.Log{}, []string{`"msg":"shown"`}, []string{"hidden"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			l := NewLogger(tc.cfg, &b)
			l.Debug("hidden")
			l.Info("shown", slog.Duration("after", 1500*time.Millisecond), slog.Any("at", &net.TCPAddr{IP: net.IPv6loopback, Port: 80}))
			for _, w := range tc.want {
				if !strings.Contains(b.String(), w) {
					t.Errorf("log %q lacks %q", b.String(), w)
				}
			}
			for _, n := range tc.not {
				if strings.Contains(b.String(), n) {
					t.Errorf("log %q holds %q", b.String(), n)
				}
			}
		})
	}
}

func TestGRPCLogFromWarningsOn(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	g := newGRPCLogger(NewLogger(config.Log{Level: "debug"}, &b))
	g.Info("x")
	g.Infoln("x")
	g.Infof("x")
	g.Warning("a", "b")
	g.Warningln("c", "d")
	g.Warningf("e %d", 1)
	g.Error("f")
	g.Errorln("g")
	g.Errorf("h %d", 2)
	want := []struct{ level, msg string }{
		{"DEBUG", "ab"}, {"DEBUG", "c d"}, {"DEBUG", "e 1"}, {"WARN", "f"}, {"WARN", "g"}, {"WARN", "h 2"},
	}
	got := lines(t, &b)
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
	for i, w := range want {
		if got[i]["level"] != w.level || got[i]["msg"] != w.msg || got[i]["component"] != "grpc-go" {
			t.Errorf("line %d is %v, want %v", i, got[i], w)
		}
	}
	if g.V(1) {
		t.Error("verbose messages are wanted")
	}
}

func TestGRPCLogIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		g := newGRPCLogger(NewLogger(config.Log{Level: "debug"}, &b))
		for range 1000 {
			g.Warning("transport: connection refused")
		}
		if n := len(lines(t, &b)); n != grpcLinesPerSecond {
			t.Fatalf("%d lines in one second, want %d", n, grpcLinesPerSecond)
		}
		time.Sleep(time.Second)
		g.Warning("again")
		got := lines(t, &b)
		if len(got) != 1 || got[0]["suppressed"] != float64(1000-grpcLinesPerSecond) {
			t.Fatalf("the next second's line is %v", got)
		}
	})
}
