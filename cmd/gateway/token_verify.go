package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/admin/adminpb"
)

func newTokenVerify() *cobra.Command {
	var where apiFlags
	var app, id, file, from, expect string
	var all bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Find out what becomes of a token, at every gateway",
		Long: `Find out what becomes of a token's calls by what Redis holds of it and, with
--all-nodes, at each gateway that is running.

The token is read from standard input, or from a file: an argument would show in
the list of processes. Where only its id is known, --id asks what becomes of
whoever has the secret. The exit status is 0 when the answer, each gateway's
included, is the one that --expect names, and 1 when one differs or is missing.`,
		Example: `  gateway token verify --app acme -c gateway.yaml < token
  gateway token verify --app acme --token-file token --all-nodes --expect refused --admin 127.0.0.1:9091`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // which may be the token
				return usagef("the token is read from standard input or --token-file; as an argument it would show in the list of processes")
			}
			return nil
		},
	}
	where.add(cmd)
	format := outputFlag(cmd)
	cmd.Flags().StringVar(&app, "app", "", "the token's `APP` (needed)")
	cmd.Flags().StringVar(&id, "id", "", "the token's `ID`, in place of the token: that the secret is the right one is taken for granted")
	cmd.Flags().StringVar(&file, "token-file", "", "the `FILE` with the token; without it, standard input")
	cmd.Flags().StringVar(&from, "from", "", "the `ADDRESS` that calls would come from")
	cmd.Flags().BoolVar(&all, "all-nodes", false, "ask each gateway that is running")
	cmd.Flags().StringVar(&expect, "expect", "valid", "what the answer is to be: valid or refused")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := needApp(app); err != nil {
			return err
		}
		if expect != "valid" && expect != "refused" {
			return usagef("--expect must be valid or refused")
		}
		var token string
		switch {
		case id != "" && file != "":
			return usagef("give --id or --token-file, not both")
		case id == "":
			var err error
			if token, err = readToken(cmd.InOrStdin(), file); err != nil {
				return err
			}
		}
		return where.with(cmd.Context(), func(ctx context.Context, a api) error {
			ctx, cancel := limited(ctx)
			defer cancel()
			answer, err := a.tokens.VerifyToken(ctx, &adminpb.VerifyTokenRequest{App: app, Token: token, Id: id, From: from, AllNodes: all})
			if err != nil {
				return err
			}
			if err := printVerdict(cmd, *format, answer); err != nil {
				return err
			}
			return differs(answer, expect == "valid", all)
		})
	}
	return cmd
}

// readToken reads the one word of an input.
func readToken(in io.Reader, file string) (string, error) {
	if file != "" && file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxTokenFile))
	if err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", usagef("there is no token on standard input; write it there, or name a file: --token-file FILE")
	}
	return token, nil
}

// nodeJSON is a gateway's answer as scripts get it.
type nodeJSON struct {
	Node    string `json:"node"`
	Verdict string `json:"verdict"` // missing: it did not answer
	Cached  bool   `json:"cached,omitempty"`
}

func printVerdict(cmd *cobra.Command, format output, v *adminpb.VerifyTokenResponse) error {
	nodes := make([]nodeJSON, 0, len(v.GetNodes())) // [], not null
	for _, n := range v.GetNodes() {
		verdict := n.GetVerdict()
		if n.GetMissing() {
			verdict = "missing"
		}
		nodes = append(nodes, nodeJSON{n.GetNode(), verdict, n.GetCached()})
	}
	if format == outputJSON {
		return printJSON(cmd.OutOrStdout(), struct {
			App     string     `json:"app"`
			ID      string     `json:"id,omitempty"`
			Valid   bool       `json:"valid"`
			Verdict string     `json:"verdict"`
			Nodes   []nodeJSON `json:"nodes"`
		}{v.GetApp(), v.GetId(), v.GetValid(), v.GetVerdict(), nodes})
	}
	rows := [][]string{{"(redis)", v.GetVerdict(), "-"}}
	for _, n := range nodes {
		cached := "no"
		if n.Cached {
			cached = "yes"
		}
		rows = append(rows, []string{n.Node, n.Verdict, cached})
	}
	return printTable(cmd.OutOrStdout(), []string{"NODE", "VERDICT", "CACHED"}, rows)
}

func verdictText(valid bool) string {
	if valid {
		return "valid"
	}
	return "refused"
}

// differs says what is not as expected.
func differs(v *adminpb.VerifyTokenResponse, valid, all bool) error {
	var faults []error
	if v.GetValid() != valid {
		faults = append(faults, fmt.Errorf("the token is %s by what Redis holds", verdictText(v.GetValid())))
	}
	missing, others := 0, 0
	for _, n := range v.GetNodes() {
		switch {
		case n.GetMissing():
			missing++
		case n.GetValid() != valid:
			others++
		}
	}
	if missing > 0 {
		faults = append(faults, fmt.Errorf("%d of %d gateways did not answer", missing, len(v.GetNodes())))
	}
	if others > 0 {
		faults = append(faults, fmt.Errorf("%d of %d gateways find it %s", others, len(v.GetNodes()), verdictText(!valid)))
	}
	if all && len(v.GetNodes()) == 0 {
		faults = append(faults, errors.New("no gateway is running"))
	}
	return errors.Join(faults...)
}
