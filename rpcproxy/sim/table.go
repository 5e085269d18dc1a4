package sim

import (
	"fmt"
	"strings"
	"time"
)

// Policies are those of config.Balancer that share calls out; pick_first does
// not.
func Policies() []string {
	return []string{"round_robin", "weighted_round_robin", "least_request", "p2c_ewma", "ring_hash"}
}

// Row is a run and what it came to.
type Row struct {
	Config
	Result
}

// Table writes the rows as Markdown, one table for each scenario.
func Table(rows []Row) string {
	var b strings.Builder
	scenario := ""
	for _, r := range rows {
		if r.Scenario.Name != scenario {
			scenario = r.Scenario.Name
			fmt.Fprintf(&b, "\n### %s\n\n", scenario)
			b.WriteString("| policy | endpoints a gateway | failed | p50 | p99 | busiest / mean | deviation | conns an endpoint | conns in all |\n")
			b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
		}
		subset := "all"
		if r.Subset > 0 {
			subset = fmt.Sprintf("%d by id", r.Subset)
		}
		if r.Numbered {
			subset = fmt.Sprintf("%d by number", r.Subset)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %.2f %% | %s | %s | %.2f | %.2f | %d–%d | %d |\n",
			r.Policy, subset, 100*float64(r.Failed)/float64(max(r.Calls, 1)), ms(r.P50), ms(r.P99),
			r.Max, r.Deviation, r.MinConns, r.MaxConns, r.Conns)
	}
	return b.String()
}

func ms(d time.Duration) string {
	return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
}
