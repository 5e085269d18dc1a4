package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// watchTime is how long one watch lasts, less a jitter: the API server ends it
	// then, and the next goes on from its last version.
	watchTime = 5 * time.Minute
	// slicePage is how many slices are listed at once; 100 endpoints each, usually.
	slicePage = 500
	// relistPause is the least time between two lists that gRPC's hints ask for.
	relistPause = 30 * time.Second
	// rewatchPause is the least time between two watches, for a server, or a proxy
	// before it, that ends each at once.
	rewatchPause = time.Second
)

// sliceSource is the EndpointSlices of one service.
type sliceSource struct {
	*Kubernetes
	namespace, service, port string
}

func (s *sliceSource) String() string {
	return "Kubernetes service " + s.namespace + "/" + s.service
}

// errGone is that a version is too old to be watched from.
var errGone = errors.New("the version is gone")

// follow lists all and watches from there on. A version that the API server no
// longer has (410 Gone) takes a new list.
func (s *sliceSource) follow(ctx context.Context, tell func([]endpoint), hints <-chan struct{}) error {
	relisted := time.Time{}
	for {
		if !pause(ctx, time.Until(relisted.Add(rewatchPause))) {
			return ctx.Err()
		}
		relisted = time.Now()
		err := s.listAndWatch(ctx, tell, hints)
		if !errors.Is(err, errGone) {
			return s.api.failed(fmt.Errorf("kubernetes: %w", err))
		}
	}
}

// listAndWatch returns errGone when all is to be listed anew.
func (s *sliceSource) listAndWatch(ctx context.Context, tell func([]endpoint), hints <-chan struct{}) error {
	w := &sliceWatch{sliceSource: s, tell: tell, all: map[string]*endpointSlice{}}
	if err := w.list(ctx); err != nil {
		return err
	}
	w.report()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hinted := make(chan struct{})
	go func() {
		defer close(hinted)
		if !pause(ctx, relistPause) {
			return
		}
		select {
		case <-ctx.Done():
		case <-hints: // an endpoint failed, and the watch may be one that brings nothing
			cancel(errGone)
		}
	}()
	defer func() { cancel(nil); <-hinted }()
	for {
		started := time.Now()
		if err := w.watch(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		if !pause(ctx, time.Until(started.Add(rewatchPause))) {
			return context.Cause(ctx)
		}
	}
}

// sliceWatch is a list and what has changed since.
type sliceWatch struct {
	*sliceSource
	tell    func([]endpoint)
	all     map[string]*endpointSlice // by name
	version string                    // up to which all is what the API server has
	fault   string                    // what was last warned of
}

func (w *sliceWatch) path() string {
	return "/apis/discovery.k8s.io/v1/namespaces/" + url.PathEscape(w.namespace) + "/endpointslices"
}

func (w *sliceWatch) query() url.Values {
	return url.Values{"labelSelector": {"kubernetes.io/service-name=" + w.service}}
}

// list gets all slices, page by page.
func (w *sliceWatch) list(ctx context.Context) error {
	query := w.query()
	query.Set("limit", strconv.Itoa(slicePage))
	for {
		page, err := w.page(ctx, query)
		if err != nil {
			return fmt.Errorf("listing endpoint slices: %w", err)
		}
		for _, s := range page.Items {
			w.all[s.Metadata.Name] = s
		}
		w.version = page.Metadata.ResourceVersion
		if page.Metadata.Continue == "" || len(w.all) > maxMembers {
			return nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

type slicePageList struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []*endpointSlice `json:"items"`
}

func (w *sliceWatch) page(ctx context.Context, query url.Values) (*slicePageList, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*apiTimeout) // the body, too
	defer cancel()
	answer, err := w.get(ctx, query, apiTimeout)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	page := new(slicePageList)
	if err := json.NewDecoder(&boundedReader{answer.Body, maxAnswer}).Decode(page); err != nil {
		return nil, err
	}
	if page.Metadata.ResourceVersion == "" {
		return nil, errors.New("the answer has no resourceVersion; is it Kubernetes?")
	}
	return page, nil
}

// get turns 410 Gone into errGone: a continued list may have outlived its
// version, too.
func (w *sliceWatch) get(ctx context.Context, query url.Values, wait time.Duration) (*http.Response, error) {
	answer, err := w.api.get(ctx, w.path(), query, wait)
	var refused *apiError
	if errors.As(err, &refused) && refused.status == http.StatusGone {
		return nil, errGone
	}
	return answer, err
}

// watch takes in changes until the API server ends the watch, which is no error.
func (w *sliceWatch) watch(ctx context.Context) error {
	limit := jitter(watchTime)
	ctx, cancel := context.WithTimeout(ctx, limit+apiTimeout)
	defer cancel()
	query := w.query()
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	query.Set("resourceVersion", w.version)
	query.Set("timeoutSeconds", strconv.Itoa(int(limit/time.Second)))
	answer, err := w.get(ctx, query, apiTimeout)
	if err != nil {
		return fmt.Errorf("watching endpoint slices: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	body := &boundedReader{answer.Body, maxAnswer}
	for events := json.NewDecoder(body); ; body.left = maxAnswer {
		var event sliceEvent
		if err := events.Decode(&event); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("watching endpoint slices: %w", err)
		}
		if err := w.apply(&event); err != nil {
			return err
		}
	}
}

// sliceEvent is one line of a watch.
type sliceEvent struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

func (w *sliceWatch) apply(event *sliceEvent) error {
	if event.Type == "ERROR" {
		var status struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		}
		if err := json.Unmarshal(event.Object, &status); err != nil {
			return fmt.Errorf("watching endpoint slices: %w", err)
		}
		if status.Code == http.StatusGone {
			return errGone
		}
		return fmt.Errorf("watching endpoint slices: %w", &apiError{status.Code, errorText(status.Message, "")})
	}
	s := new(endpointSlice)
	if err := json.Unmarshal(event.Object, s); err != nil {
		return fmt.Errorf("watching endpoint slices: %w", err)
	}
	switch event.Type {
	case "ADDED", "MODIFIED":
		w.all[s.Metadata.Name] = s
	case "DELETED":
		delete(w.all, s.Metadata.Name)
	case "BOOKMARK": // only says how far the watch has come
	}
	w.version = s.Metadata.ResourceVersion
	if event.Type != "BOOKMARK" {
		w.report()
	}
	return nil
}

// report tells what the slices come to.
func (w *sliceWatch) report() {
	endpoints, fault := endpointsOf(w.all, w.port)
	if fault != nil && fault.Error() != w.fault {
		w.fault = fault.Error()
		w.log.Warn("some endpoints cannot be used", slog.String("source", w.String()), slog.Any("error", fault))
	}
	w.tell(endpoints)
}
