package admin

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	codepb "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Entry is a line of the audit log.
type Entry struct {
	Time     time.Time
	Operator Operator
	// "package.Service/Method", or an HTTP method and a path.
	Method string
	// What it was done to; empty: nothing of that kind.
	App, TokenID string
	// The names of the fields that were set or changed.
	Fields []string
	// OK, or the code and the reason that were told.
	Result, Reason string
}

// line is an entry as the log has it. JSON escapes whatever could begin another
// line, or move a terminal's cursor.
type line struct {
	Time     time.Time `json:"time"`
	Operator string    `json:"operator,omitempty"`
	From     string    `json:"from,omitempty"`
	Method   string    `json:"method"`
	App      string    `json:"app,omitempty"`
	TokenID  string    `json:"token_id,omitempty"`
	Fields   []string  `json:"fields,omitempty"`
	Result   string    `json:"result"`
	Reason   string    `json:"reason,omitempty"`
}

// maxMethod bounds what was asked for, which may be a path of any length.
const maxMethod = 256

func (e Entry) line() line {
	e.Method = strings.ToValidUTF8(e.Method[:min(len(e.Method), maxMethod)], "")
	return line{e.Time.UTC(), e.Operator.Name, e.Operator.From, e.Method, e.App, e.TokenID, e.Fields, e.Result, e.Reason}
}

// MarshalJSON gives the line.
func (e Entry) MarshalJSON() ([]byte, error) { return json.Marshal(e.line()) }

// UnmarshalJSON reads a line.
func (e *Entry) UnmarshalJSON(data []byte) error {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return err
	}
	*e = Entry{l.Time, Operator{l.Operator, l.From}, l.Method, l.App, l.TokenID, l.Fields, l.Result, l.Reason}
	return nil
}

// LogValue has the log's own handler do the escaping.
func (e Entry) LogValue() slog.Value {
	l := e.line()
	return slog.GroupValue(slog.Time("time", l.Time), slog.String("operator", l.Operator), slog.String("from", l.From),
		slog.String("method", l.Method), slog.String("app", l.App), slog.String("token_id", l.TokenID),
		slog.Any("fields", l.Fields), slog.String("result", l.Result), slog.String("reason", l.Reason))
}

// with adds what became of it.
func (e Entry) with(err error) Entry {
	e.Result = codepb.Code(status.Code(err)).String()
	e.Reason = reasonOf(err)
	return e
}

// Audit writes what operators do to a file, or to the log.
type Audit struct {
	file string // empty: the log
	log  *slog.Logger
}

// NewAudit makes the log of a file, or of log if the name is empty. The file is
// made if it is not there, for its owner alone.
func NewAudit(file string, log *slog.Logger) (*Audit, error) {
	a := &Audit{file: file, log: log}
	f, err := a.open()
	if err != nil {
		return nil, err
	}
	a.end(f)
	return a, nil
}

// lineTimeout bounds how long a line may take to be written: a pipe's reader may
// have stopped.
const lineTimeout = 2 * time.Second

// open opens the file for one line, so that it may be moved away between any two.
// There is none where the lines go to the log. A pipe without a reader is an
// error, and nothing to wait for.
func (a *Audit) open() (*os.File, error) {
	if a.file == "" {
		return nil, nil //nolint:nilnil // see above
	}
	f, err := os.OpenFile(a.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the audit log: %w", err)
	}
	return f, nil
}

func (a *Audit) end(f *os.File) {
	if f == nil {
		return
	}
	if err := f.Close(); err != nil {
		a.log.Error("the audit log", slog.Any("error", err))
	}
}

// writable tells whether a line could be begun now.
func (a *Audit) writable() error {
	f, err := a.open()
	a.end(f)
	return err
}

// unavailable keeps what cannot be noted from being done.
func (a *Audit) unavailable(err error) error {
	a.log.Error("nothing is changed", slog.Any("error", err))
	return statusError(codes.Unavailable, "AUDIT_UNAVAILABLE", "the audit log cannot be written, so nothing is changed")
}

// Write adds an entry, with the time if it has none.
func (a *Audit) Write(e Entry) {
	f, err := a.open()
	if err != nil {
		a.log.Error("the audit log cannot be written", slog.Any("error", err))
	}
	a.write(f, e)
	a.end(f)
}

// write adds an entry to an open file, or to the log if f is nil: a line that
// cannot be where it should be must not be lost.
func (a *Audit) write(f *os.File, e Entry) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	text, err := json.Marshal(e.line())
	if err == nil && f != nil {
		_ = f.SetWriteDeadline(time.Now().Add(lineTimeout)) // files on disks have none
		// In one piece: other processes may write to it, too.
		if _, err = f.Write(append(text, '\n')); err == nil {
			return
		}
	}
	if err != nil {
		a.log.Error("the audit log cannot be written", slog.Any("error", err))
	}
	a.log.Info("audit", slog.Any("entry", e))
}

// refused adds an attempt of who may not.
func (a *Audit) refused(by Operator, method string, err error) {
	a.Write(Entry{Operator: by, Method: method}.with(err))
}
