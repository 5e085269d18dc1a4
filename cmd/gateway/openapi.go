package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/gateway"
	"github.com/rpcgate/rpcgate/openapi"
	"github.com/rpcgate/rpcgate/routes"
)

// Formats of OpenAPI documents.
const (
	documentJSON = "json"
	documentYAML = "yaml"
)

func newOpenAPI(takeLogs func(*slog.Logger)) *cobra.Command {
	var file, format, to, title, version string
	var servers []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "openapi",
		Short: "Write the OpenAPI 3.1 document of a configuration's routes",
		Long: `Write the OpenAPI 3.1 document of the routes that a configuration gives, from
descriptors on disk or by asking the backends by gRPC reflection. It is the one
that the gateway serves as /openapi.json on its admin port.

What the document leaves out is told, and is no failure. Where a backend does
not answer, or a route has a fault, the document is written of what would be
served all the same, and the exit status is 1.`,
		Example: `  gateway openapi -c etc/gateway.yaml
  gateway openapi -c etc/gateway.yaml --output yaml --file openapi.yaml --server https://api.example.com`,
		Args: noArgs,
	}
	configFlag(cmd, &file)
	cmd.Flags().StringVarP(&format, "output", "o", documentJSON, "how to write it, as `FORMAT`: json or yaml")
	cmd.Flags().StringVar(&to, "file", "", "the `FILE` to write; standard output without it")
	cmd.Flags().StringArrayVar(&servers, "server", nil, "a base `URL` of the paths, instead of the configured address; may be given several times")
	cmd.Flags().StringVar(&title, "title", "", `the API's title (default "rpcgate")`)
	cmd.Flags().StringVar(&version, "api-version", "", "the API's version (default a hash of the document)")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for backends that are asked")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if format != documentJSON && format != documentYAML {
			return usagef("--output: must be %s or %s", documentJSON, documentYAML)
		}
		return withTable(cmd, file, timeout, takeLogs, func(cfg *config.Config, table *routes.Table) error {
			o := gateway.DocumentOptions(cfg.HTTP, nil)
			o.Title, o.Version = title, version
			if len(servers) > 0 {
				o.Servers = nil
				for _, url := range servers {
					o.Servers = append(o.Servers, openapi.Server{URL: url})
				}
			}
			d := openapi.New(table, o)
			if err := writeDocument(cmd.OutOrStdout(), d, format, to); err != nil {
				return err
			}
			for _, omitted := range d.Omitted() {
				if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "left out: %s\n", printable(omitted)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

// writeDocument writes a document to a file, or to stdout where none is named.
func writeDocument(stdout io.Writer, d *openapi.Document, format, file string) error {
	text := d.Indented()
	if format == documentYAML {
		var err error
		if text, err = d.YAML(); err != nil {
			return err
		}
	}
	if file == "" {
		_, err := stdout.Write(text)
		return err
	}
	return os.WriteFile(file, text, 0o644) //nolint:gosec // an API's description is no secret
}
