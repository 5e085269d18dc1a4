package config

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func (v *validator) backends(c *Config) {
	if len(c.Backends) == 0 {
		v.missing("backends", "there is none: nothing could be called")
	}
	names := map[string]int{}
	for i := range c.Backends {
		b, section := &c.Backends[i], indexPath("backends", i)
		key := section + ".name"
		first, taken := names[b.Name]
		switch {
		case b.Name == "":
			v.missing(section, "needs name")
		case !isBackendName(b.Name):
			v.fault(key, "%s is not a name: up to %d letters, digits, dots, dashes and underscores, the first a letter or digit", v.show(key, b.Name), maxBackendName)
		case taken:
			v.fault(key, "%s is the name of backends[%d] too", v.show(key, b.Name), first)
		default:
			names[b.Name] = i
		}
		v.backend(b, section)
	}
}

func (v *validator) backend(b *Backend, section string) {
	v.exactlyOne(section, "where it is", []option{
		{"endpoints", len(b.Endpoints) > 0}, {"etcd", b.Etcd != nil}, {"consul", b.Consul != nil},
		{"kubernetes", b.Kubernetes != nil}, {"target", b.Target != ""},
	})
	v.addresses(b.Endpoints, section+".endpoints", dialAddress)
	if b.Etcd != nil {
		v.etcdKey(b.Etcd.Key, section+".etcd")
	}
	v.whereFound(b, section)
	if key := section + ".target"; b.Target != "" {
		if why := grpcTarget(b.Target); why != "" {
			v.fault(key, "%s %s", v.showAddress(key, b.Target), why)
		}
	}
	v.clientTLS(b.TLS, section+".tls")
	v.unique(b.Identity, section+".identity")
	v.descriptors(b, section)
	v.services(b, section)
	v.timeouts(b, section)
	v.breaker(&b.Breaker, section+".breaker")
	v.retry(&b.Retry, section+".retry")
	v.concurrency(&b.Concurrency, section+".concurrency")
	v.headers(&b.Headers, section+".headers")
	v.canaries(b.Canary, section+".canary")
	v.balancer(&b.Balancer, section+".balancer")
	v.ejection(&b.Ejection, section+".ejection")
	v.subset(&b.Balancer.Subset, section+".balancer.subset")
	// grpc-go raises a shorter one to this, and says so only in its own log.
	const shortest = 10 * time.Second
	if t := b.Conn.KeepaliveTime; t > 0 && t < shortest {
		v.fault(section+".conn.keepalive_time", "is too short: gRPC pings every %v at most; 0 for never", shortest)
	}
}

// option is one of several keys that exclude each other.
type option struct {
	key string
	set bool
}

// exactlyOne checks that one key of several is set.
func (v *validator) exactlyOne(section, meaning string, options []option) {
	var all, set []string
	for _, o := range options {
		all = append(all, o.key)
		if o.set {
			set = append(set, o.key)
		}
	}
	switch {
	case len(set) == 0:
		v.missing(section, "needs one of %s: %s", strings.Join(all, ", "), meaning)
	case len(set) > 1:
		v.fault(keyPath(section, set[1]), "%s are set, but only one may say %s", strings.Join(set, " and "), meaning)
	}
}

func (v *validator) descriptors(b *Backend, section string) {
	v.exactlyOne(section, "what it serves", []option{
		{"reflection", b.Reflection}, {"protoset", len(b.Protoset) > 0}, {"proto", b.Proto != nil},
	})
	for i, file := range b.Protoset {
		key := indexPath(section+".protoset", i)
		if err := checkFile(file); err != nil {
			v.fault(key, "%s: %v", v.show(key, file), err)
		}
	}
	if b.Proto == nil {
		return
	}
	section += ".proto"
	if len(b.Proto.Files) == 0 {
		v.missing(section, "needs files")
	}
	for i, folder := range b.Proto.ImportPaths {
		key := indexPath(section+".import_paths", i)
		if err := checkFolder(folder); err != nil {
			v.fault(key, "%s: %v", v.show(key, folder), err)
		}
	}
	for i, file := range b.Proto.Files {
		key := indexPath(section+".files", i)
		switch {
		case !filepath.IsLocal(file):
			v.fault(key, "%s is not relative to an import path", v.show(key, file))
		case !isIn(file, b.Proto.ImportPaths):
			v.fault(key, "%s is in none of the import paths", v.show(key, file))
		}
	}
}

// isIn tells whether a file lies under one of the folders; no folder is the working folder.
func isIn(file string, folders []string) bool {
	if len(folders) == 0 {
		folders = []string{"."}
	}
	return slices.ContainsFunc(folders, func(folder string) bool {
		info, err := os.Stat(filepath.Join(folder, file))
		return err == nil && info.Mode().IsRegular()
	})
}

func (v *validator) services(b *Backend, section string) {
	for i, service := range b.Services {
		key := indexPath(section+".services", i)
		switch {
		case !isFullName(service):
			v.fault(key, "%s is not the full name of a service; write package.Service", v.show(key, service))
		case slices.Contains(b.Services[:i], service):
			v.fault(key, "%s stands in the list already", v.show(key, service))
		}
	}
}

func (v *validator) timeouts(b *Backend, section string) {
	// Less the reserve, nothing would be left of a shorter timeout.
	tooShort := func(key string, t time.Duration) {
		if t > 0 && t <= b.DeadlineReserve {
			v.fault(key, "must be longer than deadline_reserve, %v, which is kept back of it", b.DeadlineReserve)
		}
	}
	tooShort(section+".timeout", b.Timeout)
	tooShort(section+".stream_timeout", b.StreamTimeout)
	for _, method := range slices.Sorted(maps.Keys(b.MethodTimeouts)) {
		t := b.MethodTimeouts[method]
		key := keyPath(section+".method_timeouts", method)
		if why := methodName(method); why != "" {
			v.fault(key, "%s %s", quote(method), why)
		} else if !serves(b, method) {
			v.fault(key, "its service is not among the backend's services")
		}
		tooShort(key, t)
	}
}

// serves tells whether a method's service is among those that a backend lets through.
func serves(b *Backend, method string) bool {
	return len(b.Services) == 0 || slices.Contains(b.Services, serviceOf(method))
}
