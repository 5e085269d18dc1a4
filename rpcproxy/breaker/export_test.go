package breaker

// The bounds, and how many apps have a circuit of their own.
const (
	MaxApps       = maxApps
	MaxForced     = maxForced
	SweepInterval = sweepInterval
)

func (g *Group) Apps() int { return int(g.apps.size.Load()) }
