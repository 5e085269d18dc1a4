// Command gozero is go-zero's gateway as its readme sets it up: all it does
// comes from the config file, which the bench writes.
//
//	gozero -f gateway.yaml
package main

import (
	"flag"

	"github.com/zeromicro/go-zero/core/conf"
	"github.com/zeromicro/go-zero/gateway"
)

func main() {
	file := flag.String("f", "gateway.yaml", "the config file")
	flag.Parse()

	var c gateway.GatewayConf
	conf.MustLoad(*file, &c)
	srv := gateway.MustNewServer(c)
	defer srv.Stop()
	srv.Start()
}
