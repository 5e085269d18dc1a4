package auth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A server that cannot be connected to is tried again after a pause, and not
// once per connection; others are not held up by it.
func TestDialerPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		dials, down := map[string]int{}, true
		d := &dialer{connect: func(_ context.Context, _, addr string) (net.Conn, error) {
			dials[addr]++
			if down && addr == "a" {
				return nil, refused
			}
			c, _ := net.Pipe()
			return c, nil
		}}
		try := func(addr string) error {
			t.Helper()
			c, err := d.DialContext(t.Context(), "tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			if c, ok := c.(failedConn); ok {
				_, err = c.Write([]byte("PING"))
			}
			return err
		}
		for range 1000 {
			if err := try("a"); !errors.Is(err, refused) {
				t.Fatalf("a dead server: %v", err)
			}
			if err := try("b"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if dials["a"] != 10 || dials["b"] != 1000 {
			t.Errorf("dialled %v times within a second", dials)
		}
		down = false
		time.Sleep(dialPause)
		if err := try("a"); err != nil {
			t.Errorf("it is back: %v", err)
		}

		over, cancel := context.WithCancel(t.Context())
		cancel()
		down = true
		if _, err := d.DialContext(over, "tcp", "a"); err == nil {
			t.Error("who gave up gets a connection")
		}
		down = false
		if err := try("a"); err != nil {
			t.Errorf("who gave up holds others up: %v", err)
		}
	})
}

func TestDialerIsBounded(t *testing.T) {
	d := &dialer{connect: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }}
	for i := range 3 * maxUnreachable {
		if _, err := d.DialContext(t.Context(), "tcp", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(d.unreachable); n > maxUnreachable {
		t.Errorf("%d servers are remembered", n)
	}
}
