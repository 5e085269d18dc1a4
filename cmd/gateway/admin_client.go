package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/config"
)

// maxAdminAnswer bounds what is read of an answer: thousands of endpoints and
// breakers.
const maxAdminAnswer = 64 << 20

// adminFlags say where a running gateway's admin port is.
type adminFlags struct {
	file, address string
	timeout       time.Duration
	operatorFlags
}

const defaultAdmin = "127.0.0.1:9091"

func (f *adminFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "take the admin address from the configuration `FILE`")
	cmd.Flags().StringVar(&f.address, "admin", "", `the gateway's admin `+"`ADDRESS`"+`, or https://ADDRESS (default "`+defaultAdmin+`")`)
	cmd.Flags().DurationVar(&f.timeout, "timeout", 5*time.Second, "how long to wait for the answer")
	f.operatorFlags.add(cmd)
}

// resolve gives the address to call.
func (f *adminFlags) resolve() (string, error) {
	if f.timeout <= 0 {
		return "", usagef("--timeout must be positive")
	}
	switch {
	case f.file != "" && f.address != "":
		return "", usagef("give -c or --admin, not both")
	case f.file == "" && f.address == "":
		return defaultAdmin, nil
	case f.address != "":
		return f.address, nil
	}
	cfg, err := config.Load(f.file)
	if err != nil {
		return "", err
	}
	if cfg.Admin.Address == config.Off {
		return "", fmt.Errorf("%s has no admin port (admin.address: off)", f.file)
	}
	host, port, err := net.SplitHostPort(cfg.Admin.Address)
	if err != nil {
		return "", fmt.Errorf("%s: admin.address: %w", f.file, err)
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1" // it listens on all addresses
	}
	if cfg.Admin.TLS != nil {
		return "https://" + net.JoinHostPort(host, port), nil
	}
	return net.JoinHostPort(host, port), nil
}

// ask sends a request to the admin port and decodes its answer: a GET, or, with
// a body, a POST of it as JSON.
func (f *adminFlags) ask(ctx context.Context, path string, body, answer any) error {
	address, err := f.resolve()
	if err != nil {
		return err
	}
	client, base, err := f.client(address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	method, content := http.MethodGet, []byte(nil)
	if body != nil {
		method = http.MethodPost
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(content))
	if err != nil {
		return usagef("--admin: %q is not host:port", address)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	token, err := f.token()
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking the gateway: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminAnswer))
	if err != nil {
		return fmt.Errorf("asking the gateway: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the gateway refused: %s", adminError(resp.Status, text))
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("the answer of %s is not the gateway's: %w", address, err)
	}
	return nil
}

// client makes a client for an admin address, and gives the base of its URLs. No
// proxy from the environment, and no redirect: an order is for this gateway.
func (f *operatorFlags) client(address string) (client *http.Client, base string, err error) {
	hostPort, config, err := f.where(address)
	if err != nil {
		return nil, "", err
	}
	base = "http://" + hostPort
	if config != nil {
		base = "https://" + hostPort
	}
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: config},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, base, nil
}

// adminError is what an answer says is wrong, fit for a terminal.
func adminError(status string, text []byte) string {
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &said) == nil && said.Error != "" {
		return printable(said.Error)
	}
	return printable(strings.TrimSpace(status))
}
