package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/config"
)

const (
	consulScheme = "consul"

	defaultConsulWait = time.Minute
	// consulPause is the least time between two blocking queries: an index that
	// grows all the time (that of a service moves with each change of each check's
	// output) must not have them follow one another without end.
	consulPause = 200 * time.Millisecond
)

// ConsulTarget returns the gRPC target of a backend found in Consul, for a
// ClientConn that has [Consul.Builder] among its resolvers.
func ConsulTarget(cfg config.BackendConsul) string {
	u := url.URL{Scheme: consulScheme, Path: "/" + cfg.Service}
	if cfg.Tag != "" {
		u.RawQuery = url.Values{"tag": {cfg.Tag}}.Encode()
	}
	return u.String()
}

// Consul resolves targets with scheme consul ([ConsulTarget]): the instances of
// a service that pass their checks, followed by blocking queries of the HTTP
// API (https://developer.hashicorp.com/consul/api-docs/features/blocking). Each
// ClientConn has queries of its own, unless the builder is given to [Share].
type Consul struct {
	api        *httpAPI
	datacenter string
	wait       time.Duration
	pace       pace
	log        *slog.Logger
}

// NewConsul returns the resolver for the agent that cfg names. It connects to
// nothing yet.
func NewConsul(cfg config.Consul, log *slog.Logger) (*Consul, error) {
	if cfg.Address == "" {
		return nil, errors.New("consul: no address is configured")
	}
	base := url.URL{Scheme: "http", Host: cfg.Address}
	if cfg.TLS != nil {
		base.Scheme = "https"
	}
	token := cfg.Token
	api, err := newHTTPAPI(base, cfg.TLS, func(h http.Header) (string, error) {
		if token != "" {
			h.Set("X-Consul-Token", token.Reveal())
		}
		return token.Reveal(), nil
	})
	if err != nil {
		return nil, fmt.Errorf("consul: %w", err)
	}
	return &Consul{
		api: api, datacenter: cfg.Datacenter, wait: cmp.Or(cfg.WaitTime, defaultConsulWait),
		pace: defaultPace(), log: log,
	}, nil
}

// Builder returns the builder to give to grpc.WithResolvers.
func (c *Consul) Builder() resolver.Builder { return consulBuilder{c} }

// Close lets go of the connections that no query is using.
func (c *Consul) Close() { c.api.close() }

type consulBuilder struct{ consul *Consul }

func (consulBuilder) Scheme() string { return consulScheme }

func (b consulBuilder) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	service := target.Endpoint()
	if service == "" || strings.Contains(service, "/") {
		return nil, fmt.Errorf("consul target %q names no service", target.URL.String())
	}
	s := &consulSource{Consul: b.consul, service: service, tag: target.URL.Query().Get("tag")}
	return startFollower(s, cc, b.consul.pace, b.consul.log), nil
}

// consulSource is one service.
type consulSource struct {
	*Consul
	service, tag string
}

func (s *consulSource) String() string { return "Consul service " + s.service }

// follow asks in a loop, each time until there is something newer than the last
// answer. Hints bring nothing: an answer is always being waited for.
func (s *consulSource) follow(ctx context.Context, tell func([]endpoint), _ <-chan struct{}) error {
	var index uint64
	for {
		asked := time.Now()
		endpoints, next, err := s.ask(ctx, index)
		if err != nil {
			return s.api.failed(err)
		}
		tell(endpoints)
		index = nextIndex(index, next)
		if !pause(ctx, time.Until(asked.Add(consulPause))) {
			return ctx.Err()
		}
	}
}

// nextIndex is the index to wait from. One that went back, as after a restart
// or a restored snapshot, starts anew; one of 0 would not block at all.
func nextIndex(last, next uint64) uint64 {
	if next < last {
		return 0
	}
	return max(next, 1)
}

// ask is one query; index 0 is answered at once.
func (s *consulSource) ask(ctx context.Context, index uint64) ([]endpoint, uint64, error) {
	query := url.Values{"passing": {"true"}}
	if s.tag != "" {
		query.Set("tag", s.tag)
	}
	if s.datacenter != "" {
		query.Set("dc", s.datacenter)
	}
	limit := apiTimeout
	if index > 0 {
		// Many gateways that began together shall not ask together.
		wait := jitter(s.wait)
		query.Set("index", strconv.FormatUint(index, 10))
		query.Set("wait", wait.Truncate(time.Millisecond).String())
		limit += wait + wait/16 // Consul's own jitter
	}
	ctx, cancel := context.WithTimeout(ctx, limit+apiTimeout) // the body, too
	defer cancel()
	answer, err := s.api.get(ctx, "/v1/health/service/"+url.PathEscape(s.service), query, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("consul: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	next, err := strconv.ParseUint(answer.Header.Get("X-Consul-Index"), 10, 64)
	if err != nil {
		return nil, 0, errors.New("consul: the answer has no X-Consul-Index; is it Consul?")
	}
	endpoints, err := s.read(&boundedReader{answer.Body, maxAnswer})
	if err != nil {
		return nil, 0, fmt.Errorf("consul: reading the answer: %w", err)
	}
	return endpoints, next, nil
}

func (s *consulSource) read(body io.Reader) ([]endpoint, error) {
	var instances []consulInstance
	if err := json.NewDecoder(body).Decode(&instances); err != nil {
		return nil, err
	}
	endpoints := make([]endpoint, 0, len(instances))
	for i := range instances {
		e, err := instances[i].endpoint()
		if err != nil {
			s.log.Warn("ignoring a malformed instance", "source", s.String(), "id", instances[i].Service.ID, "error", err)
			continue
		}
		endpoints = append(endpoints, e)
	}
	return sorted(endpoints), nil
}
