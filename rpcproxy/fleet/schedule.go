package fleet

import (
	"math"
	"sync/atomic"
	"time"
)

// weightInterval is how often weights are looked at anew: gRFC A58's
// weight_update_period.
const weightInterval = time.Second

// schedule spreads turns by weight: the static stride scheduler of gRPC's
// weighted_round_robin
// (https://github.com/grpc/grpc/blob/master/src/core/load_balancing/weighted_round_robin/static_stride_scheduler.cc).
// It is immutable; how far it got is the turn that it is given.
type schedule struct {
	until time.Duration // when to look at the weights again

	places  []int    // of the members that have a weight
	weights []uint16 // theirs, scaled: the largest is maxStride
}

// maxStride is the weight of the one that is never left out.
const maxStride = math.MaxUint16

func newSchedule(members []member, now time.Duration) *schedule {
	s := &schedule{until: now + weightInterval}
	weights := weightsOf(members, now)
	largest := 0.0
	for _, w := range weights {
		largest = max(largest, w)
	}
	if largest == 0 { // nobody is to get calls: all get the same
		largest = 1
		for i := range weights {
			weights[i] = 1
		}
	}
	for i, w := range weights {
		if w > 0 {
			s.places = append(s.places, i)
			s.weights = append(s.weights, uint16(max(1, math.Round(w/largest*maxStride))))
		}
	}
	return s
}

// next is the place of the member whose turn it is.
//
// The turn counts through all members over and over. In maxStride such rounds
// each is taken as often as its weight says, spread evenly; each begins at
// another point, so that equal weights are not left out in the same rounds.
func (s *schedule) next(t *turn) int {
	const offset = maxStride / 2
	n := uint64(len(s.weights))
	for {
		at := t.next()
		i, round := at%n, at/n
		weight := uint64(s.weights[i])
		if (weight*round+i*offset)%maxStride >= maxStride-weight {
			return s.places[i]
		}
	}
}

// turn counts picks. Each pick writes it, and so it has its line of memory to
// itself.
type turn struct {
	_ [cacheLine]byte
	n atomic.Uint64
	_ [cacheLine]byte
}

func (t *turn) next() uint64 { return t.n.Add(1) }
