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
