package report

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Comparison is a column that compares each subject with one of its case.
type Comparison struct {
	Header  string // of the column
	Subject string // the one that is compared with
}

// WriteTable writes one row for each subject of each case, as a Markdown table
// that is aligned for reading as it is.
func WriteTable(w io.Writer, cases []Case, comparisons []Comparison) error {
	header := []string{"case", "subject", "CPU µs/request", "user", "system"}
	for _, c := range comparisons {
		header = append(header, c.Header)
	}
	header = append(header, "requests/s", "p50 ms", "p99 ms", "RSS MiB")
	rows := [][]string{header}
	for _, c := range cases {
		for _, s := range c.Subjects {
			if len(s.Rounds) > 0 {
				rows = append(rows, row(c, s, comparisons))
			}
		}
	}
	_, err := io.WriteString(w, markdown(rows))
	return err
}

func row(c Case, s Subject, comparisons []Comparison) []string {
	cpu := over(s, Round.CPU)
	cells := []string{
		c.Name, s.Name,
		fmt.Sprintf("%s (%s–%s)", micros(cpu.Median), micros(cpu.Min), micros(cpu.Max)),
		micros(over(s, func(r Round) time.Duration { return perRequest(r.User, r.Requests) }).Median),
		micros(over(s, func(r Round) time.Duration { return perRequest(r.System, r.Requests) }).Median),
	}
	for _, other := range comparisons {
		cell := ""
		if ratio, ok := c.Ratio(s.Name, other.Subject); ok && s.Name != other.Subject {
			cell = fmt.Sprintf("%.2f (%.2f–%.2f)", ratio.Median, ratio.Min, ratio.Max)
		}
		cells = append(cells, cell)
	}
	return append(cells,
		fmt.Sprintf("%.0f", over(s, Round.Rate).Median),
		millis(over(s, func(r Round) time.Duration { return r.P50 }).Median),
		millis(over(s, func(r Round) time.Duration { return r.P99 }).Median),
		fmt.Sprintf("%.0f", float64(over(s, func(r Round) int64 { return r.Resident }).Max)/(1<<20)),
	)
}

func micros(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Microsecond)) }

func millis(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }

// markdown lays rows out under the first as a Markdown table: the first two
// columns to the left, figures to the right.
func markdown(rows [][]string) string {
	const names = 2
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, row := range rows {
		for i, cell := range row {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < names {
				b.WriteString("| " + cell + space + " ")
			} else {
				b.WriteString("| " + space + cell + " ")
			}
		}
		b.WriteString("|\n")
		if n == 0 {
			writeRule(&b, widths, names)
		}
	}
	return b.String()
}

func writeRule(b *strings.Builder, widths []int, names int) {
	for i, width := range widths {
		if i < names {
			b.WriteString("|" + strings.Repeat("-", width+2))
		} else {
			b.WriteString("|" + strings.Repeat("-", width+1) + ":")
		}
	}
	b.WriteString("|\n")
}
