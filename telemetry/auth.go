package telemetry

import "github.com/prometheus/client_golang/prometheus"

// AuthOutcome is how the authentication of one call came out.
type AuthOutcome int

// The outcomes. AuthSkipped is a call on a route that wants no credential;
// AuthSource one whose token may not be used from where it came; AuthThrottled
// one whose credential was not looked up, as too many others had been in vain;
// AuthUnavailable one whose credential could not be verified at the time;
// AuthAbandoned one whose caller left, or ran out of time, before it was.
const (
	AuthAccepted AuthOutcome = iota
	AuthSkipped
	AuthMissing
	AuthMalformed
	AuthInvalid
	AuthExpired
	AuthRevoked
	AuthSuspended
	AuthSource
	AuthThrottled
	AuthUnavailable
	AuthAbandoned

	authOutcomes int = iota
)

// String returns the outcome's value of the label "outcome".
func (o AuthOutcome) String() string {
	switch o {
	case AuthAccepted:
		return "accepted"
	case AuthSkipped:
		return "skipped"
	case AuthMissing:
		return "missing"
	case AuthMalformed:
		return "malformed"
	case AuthInvalid:
		return "invalid"
	case AuthExpired:
		return "expired"
	case AuthRevoked:
		return "revoked"
	case AuthSuspended:
		return "suspended"
	case AuthSource:
		return "source"
	case AuthThrottled:
		return "throttled"
	case AuthUnavailable:
		return "unavailable"
	case AuthAbandoned:
		return "abandoned"
	default:
		return "other"
	}
}

// Auth counts the outcomes of authentication.
type Auth struct {
	outcomes [authOutcomes + 1]prometheus.Counter // the last is for values that are no outcome
}

// NewAuth registers rpcgate_auth_total. Every outcome has its series from the
// start, so that a rate over the first refusal is seen. A nil reg leaves it
// unregistered.
func NewAuth(reg prometheus.Registerer) *Auth {
	vec := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rpcgate_auth_total",
		Help: "Calls by the outcome of their authentication.",
	}, []string{"outcome"}))
	a := &Auth{}
	for i := range a.outcomes {
		a.outcomes[i] = vec.WithLabelValues(AuthOutcome(i).String())
	}
	return a
}

// Count counts one outcome.
func (a *Auth) Count(o AuthOutcome) {
	if o < 0 || int(o) > authOutcomes {
		o = AuthOutcome(authOutcomes)
	}
	a.outcomes[o].Inc()
}
