package gateway

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// scribbled is a connection that keeps what is written to it.
type scribbled struct {
	net.Conn
	bytes.Buffer
}

func (s *scribbled) Write(p []byte) (int, error) { return s.Buffer.Write(p) }
func (s *scribbled) Read(p []byte) (int, error)  { return s.Buffer.Read(p) }

// serverFrames are what a server may write, as bytes: settings, an answer in two
// header blocks, one of them in pieces, and data of all sizes.
func serverFrames(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	f := http2.NewFramer(&b, nil)
	for _, err := range []error{
		f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 10}),
		f.WriteSettingsAck(),
		f.WritePing(false, [8]byte{1}),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("abc")}),
		f.WriteContinuation(1, false, []byte("def")),
		f.WriteContinuation(1, true, nil),
		f.WriteData(1, false, bytes.Repeat([]byte("x"), 16000)),
		f.WriteData(1, false, nil),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("ghi"), EndHeaders: true, EndStream: true}),
		f.WriteWindowUpdate(0, 5),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// kinds names the frames of a stream, and fails where they are none.
func kinds(t *testing.T, stream *scribbled) string {
	t.Helper()
	f := http2.NewFramer(nil, stream)
	var names []string
	for stream.Len() > 0 {
		frame, err := f.ReadFrame() // which knows what may follow a header block
		if err != nil {
			t.Fatalf("after %q: %v", names, err)
		}
		name := frame.Header().Type.String()
		if g, ok := frame.(*http2.GoAwayFrame); ok {
			name = fmt.Sprintf("GOAWAY(%d,%v)", g.LastStreamID, g.ErrCode)
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

const farewell = "GOAWAY(2147483647,NO_ERROR)"

// The announcement stands between two frames, after the settings, and outside of
// a header block, however the server cuts what it writes; it is written once.
func TestFarewellStandsBetweenFrames(t *testing.T) {
	t.Parallel()
	frames := serverFrames(t)
	plain := kinds(t, &scribbled{Buffer: *bytes.NewBuffer(bytes.Clone(frames))})
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		out := new(scribbled)
		c := &farewellConn{Conn: out}
		told := random.IntN(len(frames))
		answered := random.IntN(2) == 0
		for rest, at := frames, 0; len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(1+random.IntN(20000)))
			if at <= told && told < at+n {
				c.answered.Store(answered || c.answered.Load())
				c.wanted.Store(true)
				c.tell()
			}
			if _, err := c.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest, at = rest[n:], at+n
		}
		got := kinds(t, out)
		if strings.Count(got, farewell) != 1 || strings.ReplaceAll(strings.ReplaceAll(got, farewell+" ", ""), " "+farewell, "") != plain {
			t.Fatalf("got %s, want %s with one %s", got, plain, farewell)
		}
		if !answered && strings.Index(got, farewell) < strings.Index(got, "HEADERS") {
			t.Fatalf("told before the first answer: %s", got)
		}
	}
}

// An idle connection is told at once.
func TestFarewellOfAnIdleConnection(t *testing.T) {
	t.Parallel()
	out := new(scribbled)
	f := &farewells{conns: map[*farewellConn]struct{}{}}
	c := f.add(out)
	if _, err := c.Write(serverFrames(t)); err != nil {
		t.Fatal(err)
	}
	f.begin()
	f.wait()
	if got := kinds(t, out); !strings.HasSuffix(got, farewell) {
		t.Errorf("got %s", got)
	}
	f.begin()
	f.wait()
	if out.Len() > 0 {
		t.Error("told twice")
	}
}
