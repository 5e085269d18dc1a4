package integration_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

func rawBody(t testing.TB, contentType, data string) []byte {
	t.Helper()
	wire, err := proto.Marshal(&httpbody.HttpBody{ContentType: contentType, Data: []byte(data)})
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// file reads a testbackend.File.
func file(t testing.TB, b *testbackend.Server, wire []byte) (name, contentType, data string) {
	t.Helper()
	m := b.Message("File")
	if err := proto.Unmarshal(wire, m); err != nil {
		t.Fatal(err)
	}
	fields := m.Descriptor().Fields()
	content := m.Get(fields.ByName("content")).Message()
	get := func(name protoreflect.Name) protoreflect.Value {
		return content.Get(content.Descriptor().Fields().ByName(name))
	}
	return m.Get(fields.ByName("name")).String(), get("content_type").String(), string(get("data").Bytes())
}

// A body that is no JSON is the backend's own, with its media type, both ways.
func TestRawBodies(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	picture := "\x89PNG\r\n\x1a\n\x00\xff"
	b.Handle("Files/Get", func(s *testbackend.Stream) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		return s.Send(rawBody(t, "image/png", picture))
	})
	a := r.call(t, "GET", "/v1/files/a.png", "")
	if a.Status != 200 || a.Body != picture {
		t.Errorf("%d %q", a.Status, a.Body)
	}
	wantHeader(t, a.Header, "Content-Type", "image/png")
	wantHeader(t, a.Header, "Content-Length", fmt.Sprint(len(picture)))
	a = r.call(t, "HEAD", "/v1/files/a.png", "")
	wantHeader(t, a.Header, "Content-Type", "image/png")
	wantHeader(t, a.Header, "Content-Length", fmt.Sprint(len(picture)))
	r.call(t, "GET", "/v1/files/a.png:type", "").ok(t, `"image/png"`) // a field of it that is none itself
	b.Take()

	// As all of the message, both ways.
	a = r.call(t, "POST", "/v1/raw", picture, "Content-Type", "image/png")
	if a.Status != 200 || a.Body != picture {
		t.Errorf("%d %q", a.Status, a.Body)
	}
	wantHeader(t, a.Header, "Content-Type", "image/png")
	b.Take()

	// As a field of the request, beside path and query.
	r.call(t, "PUT", "/v1/files/a.png?note=n", picture, "Content-Type", "image/png").ok(t, "")
	name, kind, data := file(t, b, only(t, b).Requests()[0])
	if name != "a.png" || kind != "image/png" || data != picture {
		t.Errorf("%q %q %q", name, kind, data)
	}

	// As a field of the answer.
	b.Handle("Files/Wrapped", func(s *testbackend.Stream) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		return s.Send(append([]byte{0x12, 3}, rawBody(t, "", "x")...))
	})
	a = r.call(t, "GET", "/v1/files/a:wrapped", "")
	if a.Status != 200 || a.Body != "x" {
		t.Errorf("%d %q", a.Status, a.Body)
	}
	wantHeader(t, a.Header, "Content-Type", "application/octet-stream")

	b.Handle("Files/Get", func(*testbackend.Stream) error { return status.Error(codes.NotFound, "no such file") })
	r.call(t, "GET", "/v1/files/b.png", "").failed(t, 404, codes.NotFound, "")
}

// A download goes out as it comes, and one that fails on the way is cut off.
func TestDownload(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	eachHTTP(t, r, func(t *testing.T, client *http.Client) {
		next := make(chan error)
		b.Handle("Files/Download", func(s *testbackend.Stream) error {
			for i := range 3 {
				if err := s.Send(rawBody(t, fmt.Sprintf("text/part-%d", i), "part ")); err != nil {
					return err
				}
				select {
				case err := <-next:
					if err != nil {
						return err
					}
				case <-s.Context().Done():
					return s.Context().Err()
				}
			}
			return nil
		})
		for _, outcome := range []error{nil, status.Error(codes.DataLoss, "the disk is gone")} {
			resp, err := client.Do(r.request(t, limited(t), "GET", "/v1/files/a:download", "", "Authorization", r.bearer()))
			if err != nil {
				t.Fatal(err)
			}
			wantHeader(t, resp.Header, "Content-Type", "text/part-0")
			part := make([]byte, 5)
			for range 2 {
				if _, err := io.ReadFull(resp.Body, part); err != nil || string(part) != "part " {
					t.Fatalf("%q, %v", part, err)
				}
				next <- nil
			}
			if _, err := io.ReadFull(resp.Body, part); err != nil {
				t.Fatal(err)
			}
			next <- outcome
			rest, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if (err == nil) != (outcome == nil) || len(rest) > 0 {
				t.Errorf("with %v it ended with %v and %q", outcome, err, rest)
			}
		}
		b.Handle("Files/Download", func(*testbackend.Stream) error { return status.Error(codes.NotFound, "no such file") })
		r.do(t, client, "GET", "/v1/files/b:download", "", "Authorization", r.bearer()).failed(t, 404, codes.NotFound, "")
	})
}

// To callers of HTTP/1.0 the end of the connection is that of the body: a download
// that fails must not end so.
func TestFailedDownloadOverHTTP10(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for _, outcome := range []error{nil, status.Error(codes.DataLoss, "the disk is gone")} {
		b.Handle("Files/Download", func(s *testbackend.Stream) error {
			if err := s.Send(rawBody(t, "text/plain", "part")); err != nil {
				return err
			}
			return outcome
		})
		conn := rawConn(t, r.HTTP)
		if _, err := fmt.Fprintf(conn, "GET /v1/files/a:download HTTP/1.0\r\nAuthorization: %s\r\n\r\n", r.bearer()); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); (err == nil) != (outcome == nil) {
			t.Errorf("with %v it ended with %v and %q", outcome, err, got)
		}
	}
}

// An upload reaches the backend in chunks, the first with what path, query and
// headers say.
func TestUpload(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "http: {address: '127.0.0.1:0', max_body_size: 64KiB}\n")
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // more than a body may be
	eachHTTP(t, r, func(t *testing.T, client *http.Client) {
		for _, data := range []string{string(content), "x", ""} {
			a := r.do(t, client, "POST", "/v1/files/a.txt:upload?note=n", data, "Authorization", r.bearer(), "Content-Type", "text/plain")
			a.ok(t, "")
			requests := only(t, b).Requests()
			var got strings.Builder
			for i, m := range requests {
				name, kind, piece := file(t, b, m)
				if i == 0 && (name != "a.txt" || kind != "text/plain") || i > 0 && (name != "" || kind != "") {
					t.Fatalf("message %d: %q %q", i, name, kind)
				}
				if len(piece) > 64<<10 {
					t.Errorf("a chunk of %d bytes", len(piece))
				}
				got.WriteString(piece)
			}
			if got.String() != data {
				t.Errorf("%d bytes of %d arrived", got.Len(), len(data))
			}
		}
	})
	// Both ways at once.
	eachHTTP(t, r, func(t *testing.T, client *http.Client) {
		body, answered := r.send(t, client, "POST", "/v1/convert", "Content-Type", "text/plain")
		if _, err := io.WriteString(body, "ping"); err != nil {
			t.Fatal(err)
		}
		resp := waitFor(t, answered, "the answer")
		defer resp.Body.Close()
		wantHeader(t, resp.Header, "Content-Type", "text/plain")
		for _, text := range []string{"ping", "pong"} {
			got := make([]byte, 4)
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != text {
				t.Fatalf("%q, %v", got, err)
			}
			if text == "ping" {
				if _, err := io.WriteString(body, "pong"); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
	})
}

// Neither an upload nor a download of any size is held: half-way there is little
// of it in the gateway.
func TestFilesAreNotHeld(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	const size = 160 << 20
	half, goOn := make(chan struct{}), make(chan struct{})
	b.Handle("Files/Upload", func(s *testbackend.Stream) error {
		for got := 0; ; {
			m, err := s.Recv()
			if errors.Is(err, io.EOF) {
				return s.Send(nil)
			}
			if err != nil {
				return err
			}
			s.Forget()
			before := got
			if got += len(m); before <= size/2 && got > size/2 {
				half <- struct{}{}
				<-goOn
			}
		}
	})
	b.Handle("Files/Download", func(s *testbackend.Stream) error {
		chunk := rawBody(t, "text/plain", strings.Repeat("x", 1<<18))
		for range size >> 18 {
			if err := s.Send(chunk); err != nil {
				return err
			}
		}
		return nil
	})
	little := func(what string) {
		if live := r.liveHeap(); live > size/3 { // gRPC keeps up to 16 MiB of a stream in flight
			t.Errorf("%s: %d bytes are in use", what, live)
		}
	}
	uploaded := make(chan error, 1)
	go func() {
		req := r.request(t, limited(t), "POST", "/v1/files/a:upload", "", "Authorization", r.bearer())
		req.Body = io.NopCloser(io.LimitReader(zeros{}, size))
		resp, err := r.http1.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode != 200 {
				err = errors.New(resp.Status)
			}
		}
		uploaded <- err
	}()
	waitFor(t, half, "half of the upload")
	little("upload")
	goOn <- struct{}{}
	if err := waitFor(t, uploaded, "the upload"); err != nil {
		t.Fatal(err)
	}
	resp, err := r.http1.Do(r.request(t, limited(t), "GET", "/v1/files/a:download", "", "Authorization", r.bearer()))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.CopyN(io.Discard, resp.Body, size/2); err != nil {
		t.Fatal(err)
	}
	little("download")
	if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != size/2 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// liveHeap is how many bytes of memory are in use in the gateway, without garbage.
func (r *rig) liveHeap() int64 {
	r.AdminGet("/debug/pprof/heap?gc=1")
	return int64(r.Metric("go_memstats_heap_inuse_bytes"))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
