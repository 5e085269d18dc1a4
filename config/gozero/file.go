package gozero

import (
	"net"
	"slices"
	"strconv"
	"time"
)

// file is what of rpcgate's configuration a go-zero file says something about,
// in the order in which it is written.
type file struct {
	HTTP     httpPort  `yaml:"http"`
	GRPC     port      `yaml:"grpc"`
	Admin    *admin    `yaml:"admin,omitempty"`
	Redis    *stores   `yaml:"redis,omitempty"`
	Etcd     *etcd     `yaml:"etcd,omitempty"`
	Log      *logging  `yaml:"log,omitempty"`
	Overload *overload `yaml:"overload,omitempty"`
	Shutdown *shutdown `yaml:"shutdown,omitempty"`
	Backends []backend `yaml:"backends"`
	Routes   []route   `yaml:"routes,omitempty"`
}

type port struct {
	Address string `yaml:"address"`
}

type httpPort struct {
	Address     string    `yaml:"address"`
	TLS         *identity `yaml:"tls,omitempty"`
	Protocols   []string  `yaml:"protocols,flow"`
	MaxBodySize string    `yaml:"max_body_size"`
}

type identity struct {
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

type admin struct {
	Address string `yaml:"address"`
	Debug   bool   `yaml:"debug"`
}

type stores struct {
	Addresses []string `yaml:"addresses,flow"`
}

type logging struct {
	Level  string `yaml:"level,omitempty"`
	Format string `yaml:"format,omitempty"`
}

type overload struct {
	MaxCalls   *int64   `yaml:"max_calls,omitempty"`
	QueueDelay *string  `yaml:"queue_delay,omitempty"`
	CPU        *float64 `yaml:"cpu,omitempty"`
}

type shutdown struct {
	Delay        string `yaml:"delay,omitempty"`
	DrainTimeout string `yaml:"drain_timeout,omitempty"`
}

// Bounds that rpcgate has for what go-zero leaves open.
const (
	maxBody  = 1 << 30
	maxCalls = 1_000_000_000
)

// file converts all of a file.
func (c *conversion) file(root *section, o Options) *file {
	out := &file{GRPC: port{"off"}}
	root.text("Name") // a gateway of rpcgate's has no name
	middlewares := c.middlewares(root.section("Middlewares"))
	out.HTTP = c.listener(root, middlewares)
	out.Admin = c.admin(root)
	out.Log = c.logging(root.section("Log"))
	out.Overload = c.overload(root, middlewares)
	out.Shutdown = c.shutdown(root.section("Shutdown"))

	timeout := root.milliseconds("Timeout", 3000)
	if !middlewares.timeout {
		timeout = 0
	}
	c.upstreams(root, out, timeout, o)

	root.drop("there is no signing of requests; callers have tokens", "Signature")
	root.drop("traces are not exported yet; traceparent and tracestate pass through", "Telemetry", "TraceIgnorePaths")
	root.drop("metrics are fetched from the admin port, not sent", "MetricsUrl")
	root.drop("profiles are on the admin port, /debug/pprof", "Profiling")
	root.drop("all modes are one", "Mode")
	root.drop("there is no verbose log of requests; routes have log_bodies", "Verbose")

	c.note(0, "", "go-zero's gateway has no gRPC port, and serves JSON only: the same here. "+
		"`grpc.address` and `http.protocols` open more ways in.")
	c.note(0, "", "Errors are google.rpc.Status as JSON here, where go-zero has plain text: see `http.errors`.")
	c.note(0, "", "A header Grpc-Metadata-X reaches a backend as metadata x here, with go-zero as gateway-x.")
	if o.Auth == "none" {
		c.note(0, "", "Callers are let in without a credential, as with go-zero (`auth: none` of each backend).")
		return out
	}
	out.Redis = &stores{[]string{"${REDIS_ADDR:-127.0.0.1:6379}"}}
	c.note(0, "", "Callers need a credential here, which go-zero asks nobody for: say where Redis is, and issue tokens.")
	return out
}

// middlewares are go-zero's that have a counterpart.
type middlewares struct{ timeout, shedding, maxConns, maxBytes bool }

func (c *conversion) middlewares(s *section) middlewares {
	m := middlewares{
		timeout: s.flag("Timeout", true), shedding: s.flag("Shedding", true),
		maxConns: s.flag("MaxConns", true), maxBytes: s.flag("MaxBytes", true),
	}
	for _, name := range []string{"Trace", "Log", "Prometheus", "Breaker", "Recover", "Metrics", "Gunzip"} {
		if !s.flag(name, true) {
			s.noteAt(name, "not carried over: it cannot be switched off here")
		}
	}
	return m
}

func (c *conversion) listener(root *section, m middlewares) httpPort {
	host := root.text("Host")
	if host == "0.0.0.0" {
		host = ""
	}
	number := root.number("Port", 0)
	if number < 1 || number > 65535 {
		c.fault(root.line, "Port", "is missing, or no port")
	}
	out := httpPort{Address: net.JoinHostPort(host, strconv.FormatInt(number, 10)), Protocols: []string{"json"}}
	if cert, key := root.text("CertFile"), root.text("KeyFile"); cert != "" && key != "" {
		out.TLS = &identity{cert, key}
	}
	size := root.number("MaxBytes", 1<<20)
	if size == 0 || !m.maxBytes {
		size = maxBody
		c.note(0, "", "Request bodies had no bound; here they have %d bytes, the largest there is.", size)
	}
	out.MaxBodySize = strconv.FormatInt(min(size, maxBody), 10) + "B"
	return out
}

// admin is where metrics and health are served: go-zero's DevServer, or its
// older Prometheus.
func (c *conversion) admin(root *section) *admin {
	dev, old := root.section("DevServer"), root.section("Prometheus")
	defer func() {
		dev.text("Enabled")
		for _, s := range []*section{dev, old} {
			for name, here := range map[string]string{"MetricsPath": "/metrics", "HealthPath": "/healthz", "Path": "/metrics"} {
				if at := s.text(name); at != "" && at != here {
					s.noteAt(name, "is %s here", here)
				}
			}
		}
		dev.drop("it is `{\"status\":\"ok\"}` here", "HealthResponse")
		dev.drop("metrics are always served", "EnableMetrics")
	}()
	switch {
	case dev != nil && dev.flag("Enabled", true):
		out := &admin{Debug: dev.flag("EnablePprof", true)}
		out.Address = c.adminAddress(dev, 6060)
		return out
	case old != nil && old.has("Host"):
		return &admin{Address: c.adminAddress(old, 9101)}
	}
	return nil
}

// adminAddress binds to the loopback interface what had no host: the admin port
// asks nobody for a credential by itself, and has more on it than go-zero's.
func (c *conversion) adminAddress(s *section, absent int64) string {
	host := s.text("Host")
	if host == "" || host == "0.0.0.0" {
		host = "127.0.0.1"
		c.note(s.line, s.path, "listens on 127.0.0.1 here: `admin.address` opens it, with `admin.operators` before it")
	}
	return net.JoinHostPort(host, strconv.FormatInt(s.number("Port", absent), 10))
}

func (c *conversion) logging(s *section) *logging {
	if s == nil {
		return nil
	}
	out := &logging{}
	switch level := s.text("Level"); level {
	case "debug", "info", "error":
		out.Level = level
	case "severe":
		out.Level = "error"
	}
	switch s.text("Encoding") {
	case "json":
		out.Format = "json"
	case "plain":
		out.Format = "text"
	}
	if mode := s.text("Mode"); mode == "console" {
		s.text("Path")
	}
	const toStderr = "the log goes to standard error; who runs the process keeps and rotates it"
	s.drop("its lines name no service", "ServiceName")
	if s.text("Mode") != "console" {
		s.drop(toStderr, "Mode", "Path")
	}
	s.drop(toStderr, "Compress", "KeepDays", "MaxBackups", "MaxSize", "Rotation", "FileTimeFormat")
	s.drop("the log's keys and times have one form", "TimeFormat", "FieldKeys", "MaxContentLength", "StackCooldownMillis", "Stat")
	if *out == (logging{}) {
		return nil
	}
	return out
}

func (c *conversion) overload(root *section, m middlewares) *overload {
	out := &overload{}
	most := root.number("MaxConns", 10000)
	if !m.maxConns || most > maxCalls {
		most = 0
	}
	if most != 10000 {
		out.MaxCalls = &most
	}
	threshold := root.number("CpuThreshold", 900)
	switch {
	case threshold >= 1000:
		c.fault(root.line, "CpuThreshold", "is not below 1000")
	case threshold == 0 || !m.shedding:
		none, off := 0.0, "0s"
		out.CPU, out.QueueDelay = &none, &off
	case root.has("CpuThreshold"):
		share := float64(threshold) / 1000
		out.CPU = &share
	}
	if *out == (overload{}) {
		return nil
	}
	return out
}

func (c *conversion) shutdown(s *section) *shutdown {
	out := &shutdown{}
	if d, ok := s.duration("WrapUpTime"); ok {
		out.Delay = d.String()
	}
	if d, ok := s.duration("WaitTime"); ok {
		out.DrainTimeout = d.String()
	}
	if *out == (shutdown{}) {
		return nil
	}
	return out
}

// shorter is the shorter of two limits, of which 0 is none.
func shorter(a, b time.Duration) time.Duration {
	limits := slices.DeleteFunc([]time.Duration{a, b}, func(d time.Duration) bool { return d == 0 })
	if len(limits) == 0 {
		return 0
	}
	return slices.Min(limits)
}
