package gatewaytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/rpcgate/rpcgate/integration/process"
)

// Gateway is a running `gateway serve`.
type Gateway struct {
	*process.Process
	tb testing.TB

	HTTP, GRPC, Admin string // host:port

	file string // its config
}

// ports are put before every test's config: listeners on free ports, a log that
// hides nothing, and no waiting before the drain. A test that has such a key itself has it as it wants it.
func ports(config string) string {
	var b strings.Builder
	for _, part := range []string{
		`http: {address: "127.0.0.1:0"}`,
		`grpc: {address: "127.0.0.1:0", reflection: true}`,
		`admin: {address: "127.0.0.1:0"}`,
		`log: {success_sample: 1}`,
		`shutdown: {delay: 0s}`,
	} {
		key, _, _ := strings.Cut(part, " ")
		if !strings.HasPrefix(config, key) && !strings.Contains(config, "\n"+key) {
			b.WriteString(part + "\n")
		}
	}
	return b.String()
}

// Serve starts `gateway serve` with a config (without its listeners, which are
// on free loopback ports unless it has them) and waits until it takes calls.
func Serve(tb testing.TB, config string) *Gateway {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, []byte(ports(config)+config), 0o600); err != nil {
		tb.Fatal(err)
	}
	g := &Gateway{tb: tb, file: file, Process: process.Start(tb, Binary(tb, "cmd/gateway"), "serve", "-c", file)}
	var at struct{ HTTP, GRPC, Admin string }
	if err := g.AwaitReady(func() error {
		line, ok := lineWith(g.Output(), `"msg":"serving"`)
		if !ok {
			return errors.New("it is not serving yet")
		}
		return json.Unmarshal([]byte(line), &at)
	}); err != nil {
		tb.Fatal(err)
	}
	g.HTTP, g.GRPC, g.Admin = at.HTTP, at.GRPC, at.Admin
	return g
}

// Reload has the gateway read another config, and tells whether it took it.
func (g *Gateway) Reload(config string) bool {
	g.tb.Helper()
	if err := os.WriteFile(g.file, []byte(ports(config)+config), 0o600); err != nil {
		g.tb.Fatal(err)
	}
	const name = "rpcgate_config_reloads_total"
	taken, refused := g.Metric(name, "result", "ok"), g.Metric(name, "result", "error")
	g.Signal(syscall.SIGHUP)
	took := false
	Eventually(g.tb, func() error {
		took = g.Metric(name, "result", "ok") > taken
		if !took && g.Metric(name, "result", "error") == refused {
			return errors.New("it has not reloaded yet")
		}
		return nil
	})
	return took
}

// WaitLog returns the first line of the gateway's log that has all of parts.
func (g *Gateway) WaitLog(parts ...string) string {
	g.tb.Helper()
	var line string
	Eventually(g.tb, func() error {
		var ok bool
		if line, ok = lineWith(g.Output(), parts...); !ok {
			return fmt.Errorf("no line has %q", parts)
		}
		return nil
	})
	return line
}

// Stop asks the gateway to end and returns its exit status.
func (g *Gateway) Stop() int {
	g.Signal(syscall.SIGTERM)
	return g.ExitCode()
}

// Run runs the gateway's command line to its end and returns what it wrote.
func Run(tb testing.TB, args ...string) (stdout, stderr string, exit int) {
	tb.Helper()
	program := Binary(tb, "cmd/gateway") // which may take longer than the limit
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		var status *exec.ExitError
		if !errors.As(err, &status) {
			tb.Fatalf("running gateway %s: %v", args[0], err)
		}
	}
	return out.String(), log.String(), cmd.ProcessState.ExitCode()
}

// Command starts the gateway's command line and leaves it running.
func Command(tb testing.TB, args ...string) *process.Process {
	tb.Helper()
	return process.Start(tb, Binary(tb, "cmd/gateway"), args...)
}

// IssueToken issues a token for app into the Redis at addr.
func IssueToken(tb testing.TB, redis, app string, more ...string) string {
	tb.Helper()
	stdout, stderr, exit := Run(tb, append([]string{"token", "issue", "--app", app, "--redis", redis, "--output", "json"}, more...)...)
	if exit != 0 {
		tb.Fatalf("issuing a token: %s", stderr)
	}
	var issued struct{ Token string }
	if err := json.Unmarshal([]byte(stdout), &issued); err != nil || issued.Token == "" {
		tb.Fatalf("issuing a token gave %q: %v", stdout, err)
	}
	return issued.Token
}

// Metric sums the samples of a metric whose labels match; labels alternate
// names and values. Histograms count their observations.
func (g *Gateway) Metric(name string, labels ...string) float64 {
	g.tb.Helper()
	families, err := g.scrape()
	if err != nil {
		g.tb.Fatalf("scraping: %v", err)
	}
	family := families[name]
	if family == nil {
		return 0
	}
	var sum float64
	for _, m := range family.GetMetric() {
		if !matches(m, labels) {
			continue
		}
		switch family.GetType() {
		case dto.MetricType_COUNTER:
			sum += m.GetCounter().GetValue()
		case dto.MetricType_GAUGE:
			sum += m.GetGauge().GetValue()
		case dto.MetricType_HISTOGRAM:
			sum += float64(m.GetHistogram().GetSampleCount())
		default:
			g.tb.Fatalf("metric %s is of type %v", name, family.GetType())
		}
	}
	return sum
}

func matches(m *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}

func (g *Gateway) scrape() (map[string]*dto.MetricFamily, error) {
	body, err := g.get("/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(strings.NewReader(body))
}

// AdminGet returns a page of the admin port.
func (g *Gateway) AdminGet(path string) string {
	g.tb.Helper()
	body, err := g.get(path)
	if err != nil {
		g.tb.Fatal(err)
	}
	return body
}

func (g *Gateway) get(path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.Admin+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// RSS is how much memory the gateway has resident, in bytes.
func (g *Gateway) RSS() int64 {
	g.tb.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", g.PID()))
	if err != nil {
		g.tb.Fatal(err)
	}
	var total, resident int64
	if _, err := fmt.Sscan(string(data), &total, &resident); err != nil {
		g.tb.Fatal(err)
	}
	return resident * int64(os.Getpagesize())
}

// Shop is a running shop backend.
type Shop struct {
	*process.Process
	Addr string
}

// StartShop starts the shop at addr and waits until it listens.
func StartShop(tb testing.TB, addr string, args ...string) *Shop {
	tb.Helper()
	s := &Shop{Addr: addr, Process: process.Start(tb, Binary(tb, "examples/shop"), append([]string{"--listen", addr}, args...)...)}
	if err := s.AwaitReady(func() error {
		dialer := net.Dialer{Timeout: time.Second}
		conn, err := dialer.DialContext(tb.Context(), "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}); err != nil {
		tb.Fatal(err)
	}
	return s
}

// FreeAddress is a loopback address that nothing listens on at the moment.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	return process.Loopback(process.FreePort(tb))
}
