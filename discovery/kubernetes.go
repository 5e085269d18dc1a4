package discovery

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/config"
)

const kubernetesScheme = "kubernetes"

// serviceAccount is where a pod finds its token, its namespace, and the CA of
// the API server.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// KubernetesTarget returns the gRPC target of a backend found in Kubernetes,
// for a ClientConn that has [Kubernetes.Builder] among its resolvers:
// kubernetes:///namespace/service?port=…, without the namespace for the
// gateway's own.
func KubernetesTarget(cfg config.BackendKubernetes) string {
	u := url.URL{Scheme: kubernetesScheme, Path: "/" + cfg.Service}
	if cfg.Namespace != "" {
		u.Path = "/" + cfg.Namespace + u.Path
	}
	if cfg.Port != "" {
		u.RawQuery = url.Values{"port": {cfg.Port}}.Encode()
	}
	return u.String()
}

// Kubernetes resolves targets with scheme kubernetes ([KubernetesTarget]): the
// ready endpoints of a service's EndpointSlices, listed and then watched
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes).
// Each ClientConn has a watch of its own, unless the builder is given to [Share].
type Kubernetes struct {
	api       *httpAPI
	namespace string // of targets without one
	pace      pace
	log       *slog.Logger
}

// NewKubernetes returns the resolver for the API server that cfg names, or else
// for that of the cluster which this process is a pod of. It connects to
// nothing yet.
func NewKubernetes(cfg config.Kubernetes, log *slog.Logger) (*Kubernetes, error) {
	p := pod{serviceAccount: serviceAccount, getenv: os.Getenv}
	return p.newKubernetes(cfg, log)
}

// pod is what a process knows of the cluster around it.
type pod struct {
	serviceAccount string
	getenv         func(string) string
}

func (p pod) newKubernetes(cfg config.Kubernetes, log *slog.Logger) (*Kubernetes, error) {
	address, tls, tokenFile := cfg.Address, cfg.TLS, cfg.TokenFile
	if address == "" {
		// As https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/ has it.
		host, port := p.getenv("KUBERNETES_SERVICE_HOST"), p.getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return nil, errors.New("kubernetes: this is no pod (KUBERNETES_SERVICE_HOST is not set); set kubernetes.address")
		}
		address = "https://" + net.JoinHostPort(host, port)
		if tls == nil {
			tls = &config.ClientTLS{CAFile: filepath.Join(p.serviceAccount, "ca.crt")}
		}
		if tokenFile == "" {
			tokenFile = filepath.Join(p.serviceAccount, "token")
		}
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" {
		return nil, errors.New("kubernetes: the address is not a URL with a host")
	}
	api, err := newHTTPAPI(*base, tls, bearer(tokenFile))
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	return &Kubernetes{api: api, namespace: p.namespace(), pace: defaultPace(), log: log}, nil
}

// bearer reads the token for each request: those of service accounts are
// replaced within the hour.
func bearer(file string) func(http.Header) (string, error) {
	return func(h http.Header) (string, error) {
		if file == "" {
			return "", nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("reading the token: %w", err)
		}
		token := strings.TrimSpace(string(text))
		h.Set("Authorization", "Bearer "+token)
		return token, nil
	}
}

func (p pod) namespace() string {
	text, err := os.ReadFile(filepath.Join(p.serviceAccount, "namespace"))
	if namespace := strings.TrimSpace(string(text)); err == nil && namespace != "" {
		return namespace
	}
	return "default"
}

// Builder returns the builder to give to grpc.WithResolvers.
func (k *Kubernetes) Builder() resolver.Builder { return kubernetesBuilder{k} }

// Close lets go of the connections that no watch is using.
func (k *Kubernetes) Close() { k.api.close() }

type kubernetesBuilder struct{ kubernetes *Kubernetes }

func (kubernetesBuilder) Scheme() string { return kubernetesScheme }

// OverrideAuthority is the service's name in the cluster, which its certificate
// has, rather than a pod's address, which anybody's may come to be.
func (b kubernetesBuilder) OverrideAuthority(target resolver.Target) string {
	namespace, service := b.split(target)
	return service + "." + namespace + ".svc"
}

func (b kubernetesBuilder) split(target resolver.Target) (namespace, service string) {
	namespace, service, named := strings.Cut(target.Endpoint(), "/")
	if !named {
		return b.kubernetes.namespace, namespace
	}
	return namespace, service
}

func (b kubernetesBuilder) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	s := &sliceSource{Kubernetes: b.kubernetes, port: target.URL.Query().Get("port")}
	s.namespace, s.service = b.split(target)
	if s.namespace == "" || s.service == "" || strings.Contains(s.service, "/") {
		return nil, fmt.Errorf("kubernetes target %q is not namespace/service", target.URL.String())
	}
	return startFollower(s, cc, b.kubernetes.pace, b.kubernetes.log), nil
}
