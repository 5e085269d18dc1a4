package main

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
)

var daysOnly = regexp.MustCompile(`^(\d{1,5})d$`)

// flagError makes what the flag parser says of a command line a usage error,
// with a hint for lifetimes in days, which Go's durations have not.
func flagError(err error) error {
	var bad interface {
		error
		GetValue() string
	}
	if errors.As(err, &bad) {
		if m := daysOnly.FindStringSubmatch(bad.GetValue()); m != nil {
			days, _ := strconv.Atoi(m[1]) // five digits at most
			err = fmt.Errorf("%w; write hours: %dh", err, 24*days)
		}
	}
	return &usageError{err}
}

// needAddress checks that a flag's value is host:port. An empty host is none of
// its business: it is this machine, or all of its addresses.
func needAddress(flag, address string) error {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return usagef("--%s: %q is not host:port", flag, address)
	}
	return nil
}

// needListenAddress is needAddress for a listener, which may be off.
func needListenAddress(flag, address string) error {
	if address == config.Off {
		return nil
	}
	return needAddress(flag, address)
}

// needApp checks the value of --app.
func needApp(app string) error {
	if app == "" {
		return usagef("--app is missing")
	}
	if err := auth.ValidateApp(app); err != nil {
		return usagef("--app: %s", strings.TrimPrefix(err.Error(), auth.ErrMalformed.Error()+": "))
	}
	return nil
}
