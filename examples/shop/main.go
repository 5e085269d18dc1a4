// Command shop is rpcgate's demo backend: shop.UserService and
// shop.OrderService on an ordinary gRPC server, with health and reflection,
// registered in etcd if asked to. Its data is in memory and not shared between
// instances.
//
//	go run ./examples/shop --listen 127.0.0.1:8081
//	go run ./examples/shop --listen :8081 --etcd 127.0.0.1:2379
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/discovery"
	"github.com/rpcgate/rpcgate/examples/shop/shopserver"
)

// options are the command's flags.
type options struct {
	listen    string
	etcd      string
	etcdKey   string
	advertise string
	app       string
	token     string
	drain     time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.listen, "listen", "127.0.0.1:8081", "`host:port` to serve on")
	flag.StringVar(&o.etcd, "etcd", "", "`host:port,…` of the etcd to register in; empty: do not register")
	flag.StringVar(&o.etcdKey, "etcd-key", "shop.rpc", "the `key` to register under")
	flag.StringVar(&o.advertise, "advertise", "", "`host:port` to register; empty: the listen address, on a wildcard $POD_IP or the first private address")
	flag.StringVar(&o.app, "app", "", "answer only calls with this `app` in their metadata, as zRPC servers do; empty: all")
	flag.StringVar(&o.token, "token", os.Getenv("SHOP_TOKEN"), "the `token` that goes with -app; better given as $SHOP_TOKEN")
	flag.DurationVar(&o.drain, "drain", 10*time.Second, "how long calls in flight may take to finish on SIGTERM")
	// The default would show the token in --help.
	flag.Lookup("token").DefValue = ""
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "unexpected argument %q\n", flag.Arg(0))
		flag.Usage()
		os.Exit(2)
	}

	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, o, log); err != nil {
		log.Error("shop", "error", err)
		os.Exit(1)
	}
}

// run serves until ctx ends: then it deregisters first, so that no new callers
// come, and finishes the calls in flight.
func run(ctx context.Context, o options, log *slog.Logger) error {
	if o.app != "" && o.token == "" {
		return errors.New("-app needs -token")
	}
	var listener net.ListenConfig
	lis, err := listener.Listen(ctx, "tcp", o.listen)
	if err != nil {
		return err
	}
	log.Info("serving", "address", lis.Addr().String())

	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	served := make(chan error, 1)
	go func() {
		served <- shopserver.Serve(serving, lis, shopserver.Options{App: o.app, Token: o.token, DrainTimeout: o.drain})
	}()

	registering, stopRegistering := context.WithCancel(ctx)
	defer stopRegistering()
	registered := make(chan error, 1)
	go func() { registered <- register(registering, o, lis.Addr().String(), log) }()

	select {
	case err := <-served: // it cannot serve (any more)
		stopRegistering()
		return errors.Join(err, <-registered)
	case err = <-registered: // ctx has ended, or the options are faulty
	}
	stopServing()
	return errors.Join(err, <-served)
}

// register keeps the server registered until ctx ends.
func register(ctx context.Context, o options, listen string, log *slog.Logger) error {
	if o.etcd == "" {
		<-ctx.Done()
		return nil
	}
	address, err := discovery.AdvertiseAddress(listen, o.advertise)
	if err != nil {
		return err
	}
	cli, err := discovery.Dial(config.Etcd{Endpoints: strings.Split(o.etcd, ","), DialTimeout: 3 * time.Second})
	if err != nil {
		return err
	}
	defer cli.Close() //nolint:errcheck // the entry is gone by then, and nothing else is kept
	registration, err := discovery.NewRegistration(cli, discovery.RegisterOptions{Key: o.etcdKey, Address: address}, log)
	if err != nil {
		return err
	}
	return registration.Run(ctx)
}
