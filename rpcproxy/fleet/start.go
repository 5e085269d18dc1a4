package fleet

import "time"

// minStart is the share of calls that an endpoint begins with: Envoy's
// min_weight_percent.
const minStart = 0.1

// start is an endpoint's slow start: one that joins others gets a share of the
// calls that grows evenly over a while, from a tenth to the whole (Envoy's slow
// start mode with its default aggression of 1). It begins when discovery first
// tells of the endpoint. One that is ejected or loses its connections, and comes
// back, is not new: it was warm before, and ejection has probes of its own.
type start struct {
	begun  time.Duration
	window time.Duration // 0: it starts at once
}

// end is when the endpoint gets its whole share.
func (s *start) end() time.Duration { return s.begun + s.window }

// share is what part of the calls it gets, of those it would get otherwise.
func (s *start) share(now time.Duration) float64 {
	if s.window <= 0 {
		return 1
	}
	return min(1, max(minStart, float64(now-s.begun)/float64(s.window)))
}

// admits tells by random bits whether it takes this call.
func (s *start) admits(now time.Duration, random uint64) bool {
	return float64(random>>11)/(1<<53) < s.share(now)
}
