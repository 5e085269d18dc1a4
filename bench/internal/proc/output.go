package proc

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

// Output runs a command in a folder, "" for the current one, and returns what it
// prints, without the last newline.
func Output(ctx context.Context, dir, name string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the bench names its own commands
	cmd.Dir, cmd.Stderr = dir, &stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimRight(string(out), "\n"), nil
}

// Get fetches a page of a process and hands its body to save, which may be nil.
func Get(ctx context.Context, url string, save func(*http.Response) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	if save == nil {
		return nil
	}
	return save(response)
}
