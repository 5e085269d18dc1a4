// Package discovery owns where backends are: gRPC resolvers for etcd
// ([NewEtcd]), Consul ([NewConsul]), Kubernetes ([NewKubernetes]), DNS
// ([DNSBuilder]) and fixed addresses ([StaticBuilder]), and the registration of
// a server in etcd ([NewRegistration]). It knows nothing of what is called at
// the addresses.
//
// What it promises of each source: it is asked once for a target however many
// ClientConns resolve it (etcd by itself, the others by [Share]); the last good
// endpoints stay while it cannot be asked; a list that turns empty is believed
// only after a grace period, while the removal of one endpoint among several is
// seen at once. What endpoints registered with, [Labels] tells.
package discovery

import (
	"net/url"
	"strings"

	"github.com/rpcgate/rpcgate/config"
)

// The schemes of the targets that this package's builders resolve.
const (
	etcdScheme   = "etcd"
	staticScheme = "static"
)

// layout says how the instances of a backend register; its values are those of
// config.BackendEtcd.Layout.
type layout string

const (
	layoutAuto      layout = "auto"      // each value tells
	layoutZRPC      layout = "zrpc"      // <key>/<lease id> → host:port
	layoutEndpoints layout = "endpoints" // <key>/<anything> → {"Op":0,"Addr":"host:port","Metadata":…}
)

// EtcdTarget returns the gRPC target of a backend found in etcd, for a
// ClientConn that has [Etcd.Builder] among its resolvers.
func EtcdTarget(cfg config.BackendEtcd) string {
	u := url.URL{Scheme: etcdScheme, Path: "/" + strings.Trim(cfg.Key, "/")}
	if cfg.Layout != "" && cfg.Layout != string(layoutAuto) {
		u.RawQuery = url.Values{"layout": {cfg.Layout}}.Encode()
	}
	return u.String()
}
