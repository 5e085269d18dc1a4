package gateway

import (
	"errors"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// countedConn keeps the deadlines that reach it. It reads and writes at once.
type countedConn struct {
	net.Conn

	read, write []time.Time
}

func (c *countedConn) SetReadDeadline(t time.Time) error {
	c.read = append(c.read, t)
	return nil
}

func (c *countedConn) SetWriteDeadline(t time.Time) error {
	c.write = append(c.write, t)
	return nil
}

func (c *countedConn) Read(b []byte) (int, error)  { return len(b), nil }
func (c *countedConn) Write(b []byte) (int, error) { return len(b), nil }

func TestLazyDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for name, tc := range map[string]struct {
			wanted []time.Time // each but for the last is followed by a read and a write
			armed  []time.Time
		}{
			"none is the state of a new connection":  {[]time.Time{{}, {}}, nil},
			"what nothing waits for":                 {[]time.Time{now.Add(time.Second)}, nil},
			"the same again":                         {[]time.Time{now.Add(time.Second), now.Add(time.Second), {}}, []time.Time{now.Add(time.Second)}},
			"a little later":                         {[]time.Time{now.Add(time.Minute), now.Add(time.Minute + time.Second), {}}, []time.Time{now.Add(time.Minute)}},
			"much later":                             {[]time.Time{now.Add(time.Second), now.Add(time.Minute), {}}, []time.Time{now.Add(time.Second), now.Add(time.Minute)}},
			"a little later, but most of it is over": {[]time.Time{now.Add(-time.Second), now.Add(time.Second), {}}, []time.Time{now.Add(-time.Second), now.Add(time.Second)}},
			"earlier":                                {[]time.Time{now.Add(time.Minute), now.Add(time.Minute - 1), {}}, []time.Time{now.Add(time.Minute), now.Add(time.Minute - 1)}},
			"lifted":                                 {[]time.Time{now.Add(time.Minute), {}, {}}, []time.Time{now.Add(time.Minute), {}}},
			"in the past, lifted before anyone saw":  {[]time.Time{{}, now.Add(-time.Hour)}, nil},
		} {
			under := new(countedConn)
			c := newLazyConn(under)
			for i, wanted := range tc.wanted {
				if err := c.SetDeadline(wanted); err != nil {
					t.Fatal(err)
				}
				if i == len(tc.wanted)-1 {
					break
				}
				_, _ = c.Read(make([]byte, 1))
				_, _ = c.Write(make([]byte, 1))
			}
			same := func(got []time.Time) bool { return slices.EqualFunc(got, tc.armed, time.Time.Equal) }
			if !same(under.read) || !same(under.write) {
				t.Errorf("%s: armed %v for reading, %v for writing, want %v", name, under.read, under.write, tc.armed)
			}
		}
	})
}

// A deadline that comes while a read or a write waits ends it.
func TestLazyDeadlineEndsWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer func() { _ = theirs.Close() }()
		c := newLazyConn(ours)
		defer func() { _ = c.Close() }()
		for name, try := range map[string]func([]byte) (int, error){"read": c.Read, "write": c.Write} {
			ended := make(chan error)
			go func() {
				_, err := try(make([]byte, 1))
				ended <- err
			}()
			synctest.Wait() // it waits
			if err := c.SetDeadline(time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			_ = c.SetDeadline(time.Time{})
		}
		_ = c.SetDeadline(time.Now().Add(time.Second))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a read after its deadline was set: %v", err)
		}
	})
}
