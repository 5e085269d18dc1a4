package ledger

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Execution is a line of a journal.
type Execution struct {
	At     time.Time
	ID     string // Entry.execution of the answer
	Method string // Look, Post or Follow
	Tag    string
}

func readJournal(file string) ([]Execution, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseJournal(text)
}

func parseJournal(text []byte) ([]Execution, error) {
	var all []Execution
	for line := range bytes.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(string(line), "\n"), "\t")
		if len(fields) != 4 || !bytes.HasSuffix(line, []byte("\n")) {
			return nil, fmt.Errorf("journal: %q is not a whole line", line)
		}
		micros, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("journal: %w", err)
		}
		all = append(all, Execution{At: time.UnixMicro(micros), ID: fields[1], Method: fields[2], Tag: fields[3]})
	}
	return all, nil
}
