package discovery

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// Consul and Kubernetes are spoken to by net/http: of each one GET is needed,
// for which their own clients would bring sixteen modules and settings from the
// environment (Consul's), or several times the weight of the whole gateway's
// own code (Kubernetes').

const (
	// How long an API may take to begin an answer that it need not wait for.
	apiTimeout = 10 * time.Second
	// A connection that was silent for pingAfter is pinged, and given up when
	// nothing comes back within pingTimeout: a partition must not look like a watch
	// that has nothing to tell. Over HTTP/1.1, TCP's own keepalive does it.
	pingAfter   = 15 * time.Second
	pingTimeout = 10 * time.Second
	// How large an answer may be, or one event of a stream.
	maxAnswer = 32 << 20
	// How much of an error's text is shown.
	maxErrorText = 256
)

// httpAPI is a server that is asked by GET.
type httpAPI struct {
	base url.URL
	tls  *config.ClientTLS
	// authorize puts the credential into a request, and returns it, to be kept out
	// of errors.
	authorize func(http.Header) (secret string, err error)

	mu     sync.Mutex
	client *http.Client
}

// newHTTPAPI reads the TLS files, so that what is wrong with them shows.
func newHTTPAPI(base url.URL, cfg *config.ClientTLS, authorize func(http.Header) (string, error)) (*httpAPI, error) {
	a := &httpAPI{base: base, tls: cfg, authorize: authorize}
	return a, a.renew()
}

// renew makes a client with the TLS files as they are now, so that a new CA
// needs no restart. Connections of the old one end with their requests.
func (a *httpAPI) renew() error {
	t, err := a.tls.Load()
	if err != nil {
		return err
	}
	if t == nil {
		t = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	dialer := net.Dialer{
		Timeout:         apiTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pingAfter, Interval: pingTimeout / 2, Count: 2},
	}
	client := &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        t,
			TLSHandshakeTimeout:    apiTimeout,
			ForceAttemptHTTP2:      true,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConnsPerHost:    64, // each service's query has a connection, idle between two of them
			IdleConnTimeout:        time.Minute,
		},
		// A redirect would take the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	a.mu.Lock()
	old := a.client
	a.client = client
	a.mu.Unlock()
	if old != nil {
		old.CloseIdleConnections()
	}
	return nil
}

// failed reads the TLS files again, one of which may be why a request failed,
// and returns its error.
func (a *httpAPI) failed(err error) error {
	if again := a.renew(); again != nil {
		return fmt.Errorf("%w; %w", err, again)
	}
	return err
}

// close lets go of idle connections; those in use end with their requests.
func (a *httpAPI) close() { a.current().CloseIdleConnections() }

func (a *httpAPI) current() *http.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.client
}

// get asks, and returns an answer of status 200, whose body the caller closes.
// Other answers are an [*apiError]. The answer's beginning is waited for until
// wait is over; its body as long as ctx lasts.
func (a *httpAPI) get(ctx context.Context, path string, query url.Values, wait time.Duration) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	limit := time.AfterFunc(wait, func() { cancel(fmt.Errorf("no answer within %v", wait)) })
	answer, err := a.send(ctx, path, query)
	if !limit.Stop() || err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
		if answer != nil {
			_ = answer.Body.Close()
		}
		cancel(nil)
		return nil, err
	}
	answer.Body = &endingBody{answer.Body, func() { cancel(nil) }}
	return answer, nil
}

func (a *httpAPI) send(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	u := a.base.JoinPath(path)
	u.RawQuery = query.Encode()
	question, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	question.Header.Set("Accept", "application/json")
	question.Header.Set("User-Agent", "rpcgate")
	secret, err := a.authorize(question.Header)
	if err != nil {
		return nil, err
	}
	answer, err := a.current().Do(question)
	if err != nil {
		// Less the URL: it says nothing that the source's name does not.
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, err
	}
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxErrorText)) // what there is of it
	return nil, &apiError{status: answer.StatusCode, text: errorText(string(text), secret)}
}

// errorText makes one line of the beginning of an error's text, without the
// secret that the request had, nor what is left of it where the text was cut off.
func errorText(text, secret string) string {
	text = text[:min(len(text), maxErrorText)]
	if secret != "" {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	for n := min(len(secret), len(text)); n > 0; n-- {
		if strings.HasSuffix(text, secret[:n]) {
			text = text[:len(text)-n]
			break
		}
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
}

// endingBody ends the request's context with the body.
type endingBody struct {
	io.ReadCloser
	end func()
}

func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// apiError is an answer that is none.
type apiError struct {
	status int
	text   string
}

func (e *apiError) Error() string {
	if e.text == "" {
		return fmt.Sprintf("answered %d %s", e.status, http.StatusText(e.status))
	}
	return fmt.Sprintf("answered %d: %s", e.status, e.text)
}

// boundedReader fails when more than left bytes are read before left is set
// anew.
type boundedReader struct {
	io.Reader
	left int
}

func (r *boundedReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, fmt.Errorf("answer of more than %d bytes", maxAnswer)
	}
	n, err := r.Reader.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}
