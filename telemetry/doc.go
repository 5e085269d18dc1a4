// Package telemetry owns what the gateway tells its operators about itself: the
// process's [log/slog] logger, the access log, and the Prometheus metrics of
// calls and of authentication. The other rooms take a *slog.Logger and a
// prometheus.Registerer and know nothing of this package.
//
// It promises three things. Label values come from the route table and from
// fixed lists, never from a caller, so the number of series has a bound. The
// path of a call that is not logged allocates nothing. The number of lines that
// a flood of failures can write has a bound, and what was left out is counted.
package telemetry
