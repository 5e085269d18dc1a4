package rpcproxy

import (
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

// maxMethods bounds the methods that have a breaker and metrics of their own.
// Methods come from the route table, so that it is a safety net: those beyond
// share one.
const maxMethods = 4096

// codeCount is how many codes are told apart in metrics: gRPC's 17, and one for
// all others, which a backend is free to make up.
const codeCount = int(codes.Unauthenticated) + 2

// method is what a backend keeps for each of its methods.
type method struct {
	label string // "/package.Service/Method"
	// The limits of unary and streaming calls; 0: none.
	timeout, streamTimeout time.Duration
	breaker                *breaker.Group

	attempts   *prometheus.CounterVec // wants only the code
	byCode     [codeCount]atomic.Pointer[prometheus.Counter]
	duration   prometheus.Observer
	rejections prometheus.Counter
	repeats

	kind *limits.Kind // nil: the limit on calls at once is fixed

	// How long unary calls of late took to be answered: most of them, and the
	// slow ones.
	usual, slow quantile
}

// count notes an attempt that ended.
func (m *method) count(code codes.Code, d time.Duration) {
	m.duration.Observe(d.Seconds())
	i := min(int(code), codeCount-1)
	c := m.byCode[i].Load()
	if c == nil {
		bound := m.attempts.WithLabelValues(codeName(code))
		c = &bound
		m.byCode[i].Store(c)
	}
	(*c).Inc()
}

// codeName is a code's name in metrics and views: OTHER for what is none of
// gRPC's.
func codeName(code codes.Code) string {
	if int(code) >= codeCount-1 {
		return "OTHER"
	}
	return rpccode.Code(code).String()
}

// limit is how long a call may take at most; 0: as long as the caller gives it.
func (m *method) limit(r *Request) time.Duration {
	switch {
	case r.Timeout > 0:
		return r.Timeout
	case r.ClientStreams || r.ServerStreams:
		return m.streamTimeout
	default:
		return m.timeout
	}
}

// methods are a backend's, by full name. Looking one up takes no lock: the map
// is replaced when one is added.
type methods struct {
	backend string
	cfg     config.Backend
	metrics *metrics
	limit   *limits.Concurrency
	log     *breakerLog

	mu    sync.Mutex
	table atomic.Pointer[map[string]*method]
}

func newMethods(cfg config.Backend, m *metrics, log *slog.Logger) *methods {
	ms := &methods{backend: cfg.Name, cfg: cfg, metrics: m, limit: limits.NewConcurrency(cfg.Concurrency), log: &breakerLog{log: log}}
	ms.table.Store(&map[string]*method{})
	return ms
}

func (ms *methods) get(name string) (*method, error) {
	if m := (*ms.table.Load())[name]; m != nil {
		return m, nil
	}
	return ms.add(name)
}

func (ms *methods) add(name string) (*method, error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	table := *ms.table.Load()
	if len(table) >= maxMethods {
		name = "other"
	}
	if m := table[name]; m != nil {
		return m, nil
	}
	m, err := ms.newMethod(name)
	if err != nil {
		return nil, err
	}
	table = maps.Clone(table)
	table[name] = m
	ms.table.Store(&table)
	return m, nil
}

func (ms *methods) newMethod(name string) (*method, error) {
	b, err := breaker.New(ms.cfg.Breaker, breaker.Options{OnChange: ms.noteBreaker(name)})
	if err != nil {
		return nil, err
	}
	m := &method{
		label: name, timeout: ms.cfg.Timeout, streamTimeout: ms.cfg.StreamTimeout, breaker: b,
		attempts: ms.metrics.attempts.MustCurryWith(prometheus.Labels{"backend": ms.backend, "method": name}),
		duration: ms.metrics.duration.WithLabelValues(ms.backend, name),
		// Made now, so that it is 0 in the metrics before the first one.
		rejections: ms.metrics.rejections.WithLabelValues(ms.backend, name),
		repeats:    ms.metrics.repeats.of(ms.backend, name),
		kind:       ms.limit.Kind(name),
		usual:      quantile{of: .5},
		slow:       quantile{of: .95},
	}
	if limit, ok := ms.cfg.MethodTimeouts[strings.TrimPrefix(name, "/")]; ok {
		m.timeout, m.streamTimeout = limit, limit
	}
	return m, nil
}

func (ms *methods) all() map[string]*method { return *ms.table.Load() }
