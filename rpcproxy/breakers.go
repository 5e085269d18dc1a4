package rpcproxy

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

// BreakerView is a breaker of one of a backend's methods, as its operators see
// it.
type BreakerView struct {
	// The full method name, "/package.Service/Method".
	Method string

	breaker.View
}

// Breakers shows the breakers of the methods that were called, and of their apps
// those that there is anything to tell of, by method and app.
func (b *Backend) Breakers() []BreakerView {
	var views []BreakerView
	for name, m := range b.methods.all() {
		for _, v := range m.breaker.Views() {
			views = append(views, BreakerView{Method: name, View: v})
		}
	}
	slices.SortFunc(views, func(x, y BreakerView) int {
		byScope := 0
		if x.AppOnly != y.AppOnly {
			byScope = -1
			if x.AppOnly {
				byScope = 1
			}
		}
		return cmp.Or(cmp.Compare(x.Method, y.Method), byScope, cmp.Compare(x.App, y.App))
	})
	return views
}

// BreakerOrder is what an operator orders of a method's breakers.
type BreakerOrder struct {
	// The full method name. The caller knows that there is such a method.
	Method string
	// The app whose calls it is about; nil: everybody's.
	App *string
	// Open or Closed; nil: no more order, as the breaker itself would have it.
	State *breaker.State
	// How long it holds; 0: until there is another.
	For time.Duration
	// Who orders it, for the log and for whoever looks later.
	By string
}

// ForceBreaker forces breakers of a method open or closed, or lets them work by
// themselves again. It changes no call that is under way.
func (b *Backend) ForceBreaker(o BreakerOrder) error {
	m, err := b.methods.get(o.Method)
	if err != nil {
		return err
	}
	var forced *breaker.Forced
	if o.State != nil {
		forced = &breaker.Forced{State: *o.State, By: o.By}
		if o.For > 0 {
			forced.Until = time.Now().Add(o.For)
		}
	}
	var app string
	if o.App != nil {
		app = *o.App
	}
	if err := m.breaker.Force(app, o.App == nil, forced); err != nil {
		return fmt.Errorf("backend %q, method %s: %w", b.name, o.Method, err)
	}
	return nil
}

// breakerLog writes down what becomes of a backend's breakers. There may be one
// for each method and app, which all open when the backend goes down.
type breakerLog struct {
	log  *slog.Logger
	gate lineGate
}

// note logs a change. Orders of operators are always logged.
func (l *breakerLog) note(method string, c breaker.Change) {
	suppressed, ok := l.gate.take(c.Forced != nil || c.Lifted)
	if !ok {
		return
	}
	attrs := []any{slog.String("method", method), slog.String("state", c.To.String())}
	if c.AppOnly {
		attrs = append(attrs, slog.String("app", c.App))
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	switch {
	case c.Forced != nil:
		attrs = append(attrs, slog.String("by", c.Forced.By))
		if !c.Forced.Until.IsZero() {
			attrs = append(attrs, slog.Time("until", c.Forced.Until))
		}
		l.log.Warn("breaker is forced", attrs...)
	case c.Lifted:
		l.log.Warn("breaker is forced no more", attrs...)
	case c.To == breaker.Closed:
		l.log.Info("breaker is closed again", attrs...)
	case c.To == breaker.HalfOpen:
		l.log.Info("breaker lets some calls through", append(attrs, slog.String("reason", c.Opening.String()))...)
	default:
		l.log.Warn("breaker is open", append(attrs, slog.String("reason", c.Opening.String()))...)
	}
}

// noteBreaker makes what a method's breakers tell their changes to.
func (ms *methods) noteBreaker(method string) func(breaker.Change) {
	transitions := ms.metrics.transitions.MustCurryWith(prometheus.Labels{"backend": ms.backend, "method": method})
	return func(c breaker.Change) {
		if c.Forced == nil && !c.Lifted {
			transitions.WithLabelValues(c.To.String()).Inc()
		}
		ms.log.note(method, c)
	}
}
