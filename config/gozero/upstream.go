package gozero

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

type etcd struct {
	Endpoints []string   `yaml:"endpoints,flow"`
	Username  string     `yaml:"username,omitempty"`
	Password  string     `yaml:"password,omitempty"`
	TLS       *clientTLS `yaml:"tls,omitempty"`
}

type clientTLS struct {
	CAFile             string `yaml:"ca_file,omitempty"`
	CertFile           string `yaml:"cert_file,omitempty"`
	KeyFile            string `yaml:"key_file,omitempty"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify,omitempty"`
}

type backend struct {
	Name       string       `yaml:"name"`
	Endpoints  []string     `yaml:"endpoints,omitempty,flow"`
	Etcd       *backendEtcd `yaml:"etcd,omitempty"`
	Target     string       `yaml:"target,omitempty"`
	Reflection bool         `yaml:"reflection,omitempty"`
	Protoset   []string     `yaml:"protoset,omitempty,flow"`
	Auth       string       `yaml:"auth,omitempty"`
	Timeout    string       `yaml:"timeout"`
	Breaker    *breaker     `yaml:"breaker,omitempty"`
	Balancer   *balancer    `yaml:"balancer,omitempty"`
	Conn       *conn        `yaml:"conn,omitempty"`
}

type backendEtcd struct {
	Key string `yaml:"key"`
}

type breaker struct {
	Kind string `yaml:"kind"`
}

type balancer struct {
	Policy string `yaml:"policy"`
}

type conn struct {
	KeepaliveTime string `yaml:"keepalive_time"`
}

// upstreams makes a backend of each upstream, and a route of each mapping.
// timeout is what go-zero's HTTP server gives a request.
func (c *conversion) upstreams(root *section, out *file, timeout time.Duration, o Options) {
	names := map[string]bool{}
	outer := root.section("Etcd") // go-zero takes from it what an upstream's own leaves out
	for _, s := range root.sections("Upstreams") {
		client := s.section("Grpc")
		if client == nil {
			c.note(s.line, s.path, "not carried over: it is not gRPC, and rpcgate calls gRPC services only")
			s.takeAll()
			continue
		}
		b := backend{Auth: o.Auth}
		c.target(outer, client, out, &b)
		c.name(s, &b, names)
		if b.Protoset = s.list("ProtoSets"); len(b.Protoset) == 0 {
			b.Reflection = true
		}
		b.Timeout = shorter(timeout, client.milliseconds("Timeout", 2000)).String()
		c.client(client, &b)
		out.Backends = append(out.Backends, b)
		for _, mapping := range s.sections("Mappings") {
			if r, ok := c.route(mapping, b.Name); ok {
				out.Routes = append(out.Routes, r)
			}
		}
	}
	if len(out.Backends) == 0 {
		c.fault(root.line, "Upstreams", "has no gRPC upstream")
	}
}

// target says where the backend is.
func (c *conversion) target(outer, client *section, out *file, b *backend) {
	registry := client.section("Etcd")
	switch endpoints, target := client.list("Endpoints"), client.text("Target"); {
	case len(endpoints) > 0:
		b.Endpoints = endpoints
	case target != "":
		b.Target = target
	case registry != nil && registry.has("Key"):
		b.Etcd = &backendEtcd{Key: registry.text("Key")}
	default:
		c.fault(client.line, client.path, "names neither Endpoints nor Target nor an Etcd.Key")
		return
	}
	if b.Etcd == nil {
		if client.has("Etcd") {
			client.noteAt("Etcd", "not carried over: Endpoints or Target go before it")
			registry.takeAll()
		}
		return
	}
	c.registry(outer, registry, out)
}

// registry is the etcd of a backend, which is one for all of rpcgate's.
func (c *conversion) registry(outer, s *section, out *file) {
	e := &etcd{Endpoints: s.list("Hosts"), Username: s.text("User")}
	if len(e.Endpoints) == 0 {
		e.Endpoints = outer.list("Hosts")
	}
	if len(e.Endpoints) == 0 {
		c.fault(s.line, s.path, "names no Hosts")
	}
	if s.text("Pass") != "" {
		e.Password = "${ETCD_PASSWORD}"
		s.noteAt("Pass", "is not copied: put it into the environment variable ETCD_PASSWORD, or use etcd.password_file")
	}
	e.TLS = &clientTLS{
		CAFile: s.text("CACertFile"), CertFile: s.text("CertFile"), KeyFile: s.text("CertKeyFile"),
		InsecureSkipVerify: s.flag("InsecureSkipVerify", false),
	}
	if *e.TLS == (clientTLS{}) {
		e.TLS = nil
	}
	s.drop("it is for who registers", "ID")
	switch {
	case out.Etcd == nil:
		out.Etcd = e
	case !slices.Equal(out.Etcd.Endpoints, e.Endpoints) || out.Etcd.Username != e.Username:
		c.note(s.line, s.path, "not carried over: rpcgate asks one etcd, that of the first upstream; it looks for this key there")
	}
}

// name names the backend, as go-zero does where it can.
func (c *conversion) name(s *section, b *backend, taken map[string]bool) {
	given := s.text("Name")
	name := given
	if name == "" && b.Etcd != nil {
		name = strings.TrimSuffix(b.Etcd.Key, ".rpc")
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, name)
	name = strings.TrimLeft(name, "-_.")
	const longest, room = 63, 4 // rpcgate's bound; room for a number
	if len(name) > longest-room {
		name = name[:longest-room]
	}
	if name == "" {
		name = "backend"
	}
	unique := name
	for n := 2; taken[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", name, n)
	}
	taken[unique] = true
	b.Name = unique
	if given != "" && given != unique {
		s.noteAt("Name", "is %s here: names are unique, and have letters, digits, dots, - and _", unique)
	}
}

// client converts the rest of a zRPC client.
func (c *conversion) client(s *section, b *backend) {
	switch name := s.text("BalancerName"); name {
	case "", "p2c_ewma":
	case "round_robin", "pick_first":
		b.Balancer = &balancer{name}
	case "consistent_hash":
		b.Balancer = &balancer{"ring_hash"}
		s.noteAt("BalancerName", "is ring_hash here: say by balancer.hash_header what keeps its endpoint; without it, the app")
	default:
		s.noteAt("BalancerName", "not carried over: rpcgate has no balancer %q; p2c_ewma it is", name)
	}
	if d, ok := s.duration("KeepaliveTime"); ok && d > 0 {
		b.Conn = &conn{d.String()}
	}
	m := s.section("Middlewares")
	if !m.flag("Breaker", true) {
		b.Breaker = &breaker{"off"}
	}
	if !m.flag("Timeout", true) {
		m.noteAt("Timeout", "not carried over: backends have a timeout; 0s is none")
	}
	for _, name := range []string{"Trace", "Duration", "Prometheus"} {
		if !m.flag(name, true) {
			m.noteAt(name, "not carried over: it cannot be switched off here")
		}
	}
	s.flag("NonBlock", true) // rpcgate never waits for a backend when it starts
	const credential = "not carried over: one credential was sent for all callers; here each caller's own is (backends' credentials: pass)"
	s.noteAt("App", credential)
	s.noteAt("Token", credential)
}
