package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rpcgate/rpcgate/bench/internal/proc"
)

// The proxies that are programs of the system, and left out where they are not
// installed. They pass gRPC on, unauthenticated and unlogged.
const (
	nginx   = "nginx"
	haproxy = "haproxy"
)

// startSystem starts nginx or haproxy before the backend. It is false when there
// is no such program.
func (s *stage) startSystem(kind, backend string, progress *log.Logger) (subject, bool, error) {
	path, ok := findProgram(kind)
	if !ok {
		progress.Printf("%s is not installed, and left out", kind)
		return subject{}, false, nil
	}
	listen, err := proc.FreeAddress(s.ctx)
	if err != nil {
		return subject{}, false, err
	}
	file := filepath.Join(s.dir, kind+".conf")
	text, args := nginxConfig(s.dir, listen, backend), []string{"-p", s.dir, "-e", filepath.Join(s.dir, "nginx.err"), "-c", file}
	if kind == haproxy {
		text, args = haproxyConfig(s.procs, listen, backend), []string{"-db", "-f", file}
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return subject{}, false, err
	}
	p, err := s.launch(kind, path, args...)
	if err != nil {
		return subject{}, false, err
	}
	err = p.Await(s.ctx, startTimeout, func(ctx context.Context) error { return proc.Accepts(ctx, listen) })
	return subject{name: kind, process: p, grpc: listen}, true, err
}

// findProgram looks in the path and where Debian has its servers, which is not
// in everybody's path.
func findProgram(name string) (path string, ok bool) {
	for _, try := range []string{name, filepath.Join("/usr/sbin", name)} {
		if path, err := exec.LookPath(try); err == nil {
			return path, true
		}
	}
	return "", false
}

// nginxConfig is one worker in the foreground, so that all it costs is in one
// process. Connections stay: by default nginx closes one after 1,000 requests,
// and makes a new one to the backend for each.
func nginxConfig(dir, listen, backend string) string {
	return fmt.Sprintf(`daemon off;
master_process off;
pid %[1]s/nginx.pid;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path %[1]s/nginx-body;
  proxy_temp_path %[1]s/nginx-proxy;
  fastcgi_temp_path %[1]s/nginx-fastcgi;
  uwsgi_temp_path %[1]s/nginx-uwsgi;
  scgi_temp_path %[1]s/nginx-scgi;
  upstream backend {
    server %[3]s;
    keepalive 64;
    keepalive_requests 1000000000;
  }
  server {
    listen %[2]s http2;
    location / { grpc_pass grpc://backend; }
  }
}
`, dir, listen, backend)
}

func haproxyConfig(threads int, listen, backend string) string {
	return fmt.Sprintf(`global
  nbthread %d
defaults
  mode http
  timeout connect 5s
  timeout client 1m
  timeout server 1m
frontend front
  bind %s proto h2
  default_backend back
backend back
  http-reuse always
  server one %s proto h2
`, threads, listen, backend)
}
