package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rpcgate/rpcgate/admin/adminpb"
)

func newTokenExport() *cobra.Command {
	var where apiFlags
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print all apps and tokens, a line of JSON each, for import",
		Long: `Print all apps and tokens, a line of JSON each, for import elsewhere. There are
hashes in it, and no secrets; still, keep it from who has no business with it.`,
		Example: `  gateway token export -c gateway.yaml > tenants.ndjson`,
		Args:    noArgs,
	}
	where.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return where.with(cmd.Context(), func(ctx context.Context, a api) error {
			stream, err := a.transfer.ExportRecords(ctx, &adminpb.ExportRecordsRequest{})
			if err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			for {
				record, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					return out.Flush()
				}
				if err != nil {
					return errors.Join(err, out.Flush())
				}
				if err := writeRecord(out, record); err != nil {
					return err
				}
			}
		})
	}
	return cmd
}

// writeRecord writes a line. protojson puts blanks at random into its own, so
// that nobody compares them; these are for comparing.
func writeRecord(w io.Writer, record *structpb.Struct) error {
	text, err := record.MarshalJSON()
	if err != nil {
		return err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return err
	}
	line.WriteByte('\n')
	_, err = w.Write(line.Bytes())
	return err
}

func newTokenImport() *cobra.Command {
	var where apiFlags
	var file, from, existing string
	var dryRun bool
	var zrpc goZeroFlags
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Take in apps and tokens from an export, or zRPC's tokens",
		Long: `Take in the records of an export, from standard input or --file. It ends at the
first record that cannot be taken; what came before it stays.

With --from gozero, take in the tokens of a hash that go-zero's zRPC keeps, app to
token in plain text: they become hashed records, and stay valid. The hash is left
as it is. It lies in the same Redis, or in that of --from-redis.`,
		Example: `  gateway token import --file tenants.ndjson --existing skip -c gateway.yaml
  gateway token import --from gozero --key rpc:apps --redis 127.0.0.1:6379`,
		Args: noArgs,
	}
	where.add(cmd)
	format := outputFlag(cmd)
	cmd.Flags().StringVar(&file, "file", "", "read records from `FILE`; without it, standard input")
	cmd.Flags().StringVar(&existing, "existing", "fail", "what becomes of a record that is there and is another: fail, skip or replace")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "find out what would be done, and change nothing")
	cmd.Flags().StringVar(&from, "from", "", "`gozero`: zRPC's tokens")
	zrpc.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		mode, ok := map[string]adminpb.ImportRecordsRequest_Existing{
			"fail": adminpb.ImportRecordsRequest_FAIL, "skip": adminpb.ImportRecordsRequest_SKIP, "replace": adminpb.ImportRecordsRequest_REPLACE,
		}[existing]
		switch {
		case !ok:
			return usagef("--existing must be fail, skip or replace")
		case from == "gozero":
			if file != "" || where.remote.given() {
				return usagef("--from gozero goes with neither --file nor --admin")
			}
			return zrpc.run(cmd, &where, *format, dryRun)
		case from != "":
			return usagef("--from must be gozero")
		case zrpc.key != "" || zrpc.redis != "":
			return usagef("--key and --from-redis go with --from gozero")
		}
		in := cmd.InOrStdin()
		if file != "" {
			f, err := os.Open(file)
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			in = f
		}
		return where.with(cmd.Context(), func(ctx context.Context, a api) error {
			sum, err := importRecords(ctx, a, in, mode, dryRun)
			if err != nil {
				return err
			}
			return printImport(cmd, *format, sum.GetCreated(), sum.GetReplaced(), sum.GetKept(), 0, dryRun)
		})
	}
	return cmd
}

// importRecords sends what is read as it is read.
func importRecords(ctx context.Context, a api, in io.Reader, existing adminpb.ImportRecordsRequest_Existing, dryRun bool) (*adminpb.ImportRecordsResponse, error) {
	stream, err := a.transfer.ImportRecords(ctx)
	if err != nil {
		return nil, err
	}
	records := json.NewDecoder(bufio.NewReader(in))
	for n := 1; ; n++ {
		var text json.RawMessage
		if err := records.Decode(&text); errors.Is(err, io.EOF) {
			return stream.CloseAndRecv()
		} else if err != nil {
			return nil, fmt.Errorf("record %d: %w", n, err)
		}
		record := new(structpb.Struct)
		if err := record.UnmarshalJSON(text); err != nil {
			return nil, fmt.Errorf("record %d is no JSON object", n)
		}
		err := stream.Send(&adminpb.ImportRecordsRequest{Record: record, Existing: existing, DryRun: dryRun})
		if errors.Is(err, io.EOF) { // the service has ended it, and says why
			return stream.CloseAndRecv()
		}
		if err != nil {
			return nil, err
		}
	}
}

// printImport tells what became of records.
func printImport(cmd *cobra.Command, format output, created, replaced, kept, refused int64, dryRun bool) error {
	if format == outputJSON {
		return printJSON(cmd.OutOrStdout(), struct {
			Created  int64 `json:"created"`
			Replaced int64 `json:"replaced"`
			Kept     int64 `json:"kept"`
			Refused  int64 `json:"refused"`
			DryRun   bool  `json:"dry_run,omitempty"`
		}{created, replaced, kept, refused, dryRun})
	}
	begin := "Imported"
	if dryRun {
		begin = "Would import"
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %d created, %d replaced, %d kept, %d refused.\n", begin, created, replaced, kept, refused)
	return err
}
