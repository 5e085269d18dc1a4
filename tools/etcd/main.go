// Command etcd is the stock etcd server, built from its Go module. Upstream's
// own main package cannot be installed by `go install …@version` (its go.mod
// has replace directives), so the tests build this one.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
