package integration_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/rpcgate/rpcgate/integration/toolbuild"
)

// h2specCases is how many cases h2spec has. It counts on all of them being run.
const h2specCases = 145

// h2spec, a conformance test of HTTP/2 servers, finds nothing in the gateway's
// ports that it does not find in the bare servers that they are made with. It
// calls those in the same run: what they fail is theirs to change.
func TestH2Spec(t *testing.T) {
	t.Parallel()
	program := toolbuild.Program(t, "h2spec", "github.com/summerwind/h2spec/cmd/h2spec")
	r, _ := newEchoRig(t, "", "")
	for name, tc := range map[string]struct{ gateway, bare string }{
		"HTTP port and net/http": {r.HTTP, startBareHTTP(t)},
		"gRPC port and grpc-go":  {r.GRPC, startBareGRPC(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ours, theirs map[string]string
			var runs sync.WaitGroup
			runs.Go(func() { ours = h2spec(t, program, tc.gateway, h2specCases) })
			runs.Go(func() { theirs = h2spec(t, program, tc.bare, h2specCases) })
			runs.Wait()
			for name, failure := range ours {
				if _, both := theirs[name]; !both && !turnsOut(t, program, name, tc.gateway, tc.bare) {
					t.Errorf("%s: the gateway fails it, and the bare server does not:\n%s", name, failure)
				}
			}
			t.Logf("of %d cases the gateway fails %d, the bare server %d", h2specCases, len(ours), len(theirs))
		})
	}
}

// turnsOut repeats the section of a case that the gateway failed, and tells
// whether that was chance: some cases ask for an error on a stream that the
// server may have answered and closed before.
func turnsOut(t *testing.T, program, name, gateway, bare string) bool {
	const attempts = 20
	section, _, _ := strings.Cut(name, " ")
	for range attempts {
		_, ours := h2spec(t, program, gateway, 0, section)[name]
		_, theirs := h2spec(t, program, bare, 0, section)[name]
		if theirs || !ours {
			return true
		}
	}
	return false
}

// h2spec runs cases against a server, all or those of a section, and returns
// those that fail, with what is said of them. It fails the test unless so many
// were run; 0 stands for any number.
func h2spec(t *testing.T, program, addr string, want int, sections ...string) map[string]string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Error(err)
		return nil
	}
	report := filepath.Join(t.TempDir(), "report.xml")
	ctx, cancel := context.WithTimeout(t.Context(), 4*testLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, append([]string{"-h", host, "-p", port, "-o", "2", "-j", report}, sections...)...).CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) { // failing cases are an exit status
		t.Errorf("h2spec: %v:\n%s", err, out)
		return nil
	}
	failures, cases, err := readJUnit(report)
	if err != nil || want > 0 && cases != want {
		t.Errorf("h2spec ran %d cases, want %d (%v):\n%s", cases, want, err, out)
	}
	return failures
}

// readJUnit returns the failed cases of a report, and how many there are in it.
func readJUnit(file string) (failures map[string]string, cases int, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, 0, err
	}
	var report struct {
		Suites []struct {
			Cases []struct {
				Package string `xml:"package,attr"`
				Class   string `xml:"classname,attr"`
				Failure string `xml:"failure"`
				Error   string `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(data, &report); err != nil {
		return nil, 0, fmt.Errorf("reading the report: %w", err)
	}
	failures = make(map[string]string)
	for _, suite := range report.Suites {
		for _, c := range suite.Cases {
			cases++
			if failure := strings.TrimSpace(c.Failure + c.Error); failure != "" {
				failures[c.Package+" "+c.Class] = failure
			}
		}
	}
	return failures, cases, nil
}

// startBareHTTP starts net/http's server for HTTP/2 in clear text and returns
// its address.
func startBareHTTP(t *testing.T) string {
	t.Helper()
	server := &http.Server{
		ErrorLog:  log.New(io.Discard, "", 0), // of each connection that h2spec breaks
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }),
		Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	lis := listen(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(lis)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return lis.Addr().String()
}

// startBareGRPC starts a grpc-go server without services and returns its
// address.
func startBareGRPC(t *testing.T) string {
	t.Helper()
	server := grpc.NewServer(grpc.MaxConcurrentStreams(1000)) // the gateway's default: a case asks for one more
	lis := listen(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(lis)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return lis.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	var listener net.ListenConfig
	lis, err := listener.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return lis
}
