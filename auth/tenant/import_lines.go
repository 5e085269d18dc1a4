package tenant

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ImportSummary counts what became of imported records.
type ImportSummary struct{ Created, Replaced, Kept int }

func (s *ImportSummary) count(r ImportResult) {
	switch r {
	case Created:
		s.Created++
	case Replaced:
		s.Replaced++
	case Kept:
		s.Kept++
	}
}

// ImportLines imports newline-delimited records, as [Export] gives them: one a
// line, empty lines apart. It ends at the first that cannot be taken, with an
// error that names the line; those before it stay imported, and the same lines
// imported again are kept. Errors: those of Import, and r's.
func (s *Store) ImportLines(ctx context.Context, r io.Reader, o ImportOptions) (ImportSummary, error) {
	var sum ImportSummary
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), MaxRecord)
	n := 0
	for lines.Scan() {
		n++
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var record Record
		err := json.Unmarshal(lines.Bytes(), &record)
		if err != nil {
			if !errors.Is(err, ErrInput) {
				err = malformedRecord(err)
			}
			return sum, fmt.Errorf("line %d: %w", n, err)
		}
		result, err := s.Import(ctx, record, o)
		if err != nil {
			return sum, fmt.Errorf("line %d: %w", n, err)
		}
		sum.count(result)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return sum, fmt.Errorf("line %d: %w", n+1, &InputError{"", fmt.Sprintf("the line is longer than %d bytes", MaxRecord)})
	}
	return sum, lines.Err()
}
