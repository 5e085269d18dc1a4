package limits

// Priority says which calls are shed last.
type Priority uint8

// The priorities, in the order in which their calls are shed.
const (
	Low Priority = iota
	Normal
	High
	Critical

	priorities = iota
)

// Priorities is how many there are: a Priority is below it.
const Priorities = priorities

// PriorityNamed gives the priority that config names; an empty name is
// [Normal], and so is one that is none.
func PriorityNamed(name string) Priority {
	for p := range Priority(priorities) {
		if p.String() == name {
			return p
		}
	}
	return Normal
}

// String is the priority's name in config and metrics.
func (p Priority) String() string {
	switch p {
	case Low:
		return "low"
	case High:
		return "high"
	case Critical:
		return "critical"
	default:
		return "normal"
	}
}

// raised is the priority so many above p, or below, where there is one.
func (p Priority) raised(by int) Priority {
	return Priority(min(max(int(p)+by, int(Low)), int(Critical)))
}

// Raise is by how much an app of the priority that its record names moves its
// calls' from what their route says: low one down, high one up, critical two; by
// normal, and without one, they stay.
func Raise(name string) int { return int(PriorityNamed(name)) - int(Normal) }
