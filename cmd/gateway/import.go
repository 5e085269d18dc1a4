package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/config/gozero"
)

func newImport() *cobra.Command {
	return group(&cobra.Command{
		Use:   "import",
		Short: "Turn another gateway's configuration into one of rpcgate's",
		Long: `Turn another gateway's configuration into one of rpcgate's. What is not carried
over is told, and stands as comments at the head of the new file.

Tokens are imported by 'gateway token import'.`,
		Example: `  gateway import gozero -f gozero.yaml --out gateway.yaml`,
	}, newImportGoZero())
}

func newImportGoZero() *cobra.Command {
	var from, to string
	var o gozero.Options
	cmd := &cobra.Command{
		Use:   "gozero",
		Short: "Turn the configuration of a go-zero gateway into one of rpcgate's",
		Long: `Turn the configuration of a go-zero gateway, YAML or JSON, into one of rpcgate's.
The new file goes to standard output, or to a new file (--out); what is not as it
was there goes to standard error too. Secrets are not copied.

Callers need a credential then, which go-zero asks nobody for; with --auth none
they do not. The exit status is 1 if the new file has faults, which are told.`,
		Example: `  gateway import gozero -f gozero.yaml --out gateway.yaml
  gateway check -c gateway.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" {
				return usagef("-f FILE is missing")
			}
			if o.Auth != "required" && o.Auth != "none" {
				return usagef("--auth is required or none, not %q", o.Auth)
			}
			data, err := readBounded(from)
			if err != nil {
				return err
			}
			converted, err := gozero.Convert(data, o)
			if err != nil {
				return fmt.Errorf("%s: %w", from, err)
			}
			if err := writeNew(to, converted.YAML, cmd.OutOrStdout()); err != nil {
				return err
			}
			return tellImported(cmd.ErrOrStderr(), to, converted)
		},
	}
	cmd.Flags().StringVarP(&from, "file", "f", "", "go-zero's `FILE`")
	cmd.Flags().StringVar(&to, "out", "", "write to this `FILE`, which must not be there yet")
	cmd.Flags().StringVar(&o.Auth, "auth", "required", "`WHO` needs a credential: required (every caller) or none")
	return cmd
}

// maxImport bounds a file of another's, as config does its own.
const maxImport = 4 << 20

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxImport+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxImport:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxImport)
	}
	return data, nil
}

// writeNew writes a file that is not there yet, or to stdout where none is named.
func writeNew(path string, data []byte, stdout io.Writer) error {
	if path == "" {
		_, err := stdout.Write(data)
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already, and stays as it is", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// tellImported says what is not as it was, and what config finds wrong with the
// new file.
func tellImported(w io.Writer, path string, converted *gozero.Converted) error {
	for _, n := range converted.Notes {
		_, _ = fmt.Fprintln(w, n)
	}
	name := path
	if name == "" {
		name = "gateway.yaml"
	}
	// Of variables only the operator's machine knows the values.
	_, err := config.Parse(name, converted.YAML, func(string) (string, bool) { return "", false })
	var faults config.Faults
	if !errors.As(err, &faults) {
		return err
	}
	failed := false
	for _, f := range faults {
		if f.Key == "etcd.password" { // a variable that is not set here
			continue
		}
		failed = true
		_, _ = fmt.Fprintln(w, f)
	}
	if failed {
		return errReported
	}
	return nil
}
