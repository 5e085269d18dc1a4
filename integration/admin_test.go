package integration_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rpcgate/rpcgate/admin"
	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// adminRig is a gateway with two operators and an audit log.
type adminRig struct {
	*rig
	ann, bob  string // tokens: ann may write, bob may read
	annFile   string
	auditFile string
	backend   *testbackend.Server
}

// newAdminRig starts it; more goes into the admin section.
func newAdminRig(t *testing.T, more string) *adminRig {
	t.Helper()
	a := &adminRig{auditFile: filepath.Join(t.TempDir(), "audit.jsonl"), annFile: filepath.Join(t.TempDir(), "ann")}
	var annHash, bobHash string
	a.ann, annHash = admin.NewOperatorToken()
	a.bob, bobHash = admin.NewOperatorToken()
	if err := os.WriteFile(a.annFile, []byte(a.ann+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	carol := ""
	if strings.Contains(more, "client_ca_file") {
		carol = "    - {name: carol, role: write, certificate: carol}\n"
	}
	a.rig, a.backend = newEchoRig(t, "", fmt.Sprintf(`admin:
  address: "127.0.0.1:0"
  audit_log: %s
%s  operators:
    - {name: ann, role: write, token_hash: %s}
    - {name: bob, token_hash: %s}
%s`, a.auditFile, more, annHash, bobHash, carol))
	return a
}

// api sends a request to the admin port as an operator does by curl. Its content
// type is JSON's where there is a body.
func (a *adminRig) api(t *testing.T, token, method, path, body string, header ...string) answer {
	t.Helper()
	return a.apiBy(t, http.DefaultClient, "http://"+a.Admin, token, method, path, body, header...)
}

func (a *adminRig) apiBy(t *testing.T, client *http.Client, base, token, method, path, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(limited(t), method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{Status: resp.StatusCode, Proto: resp.Proto, Header: resp.Header, Body: string(text)}
}

// decoded is an answer that must be a success, as JSON.
func decoded(t *testing.T, a answer) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(a.Body), &m); err != nil || a.Status != http.StatusOK {
		t.Fatalf("%d: %s", a.Status, a.Body)
	}
	return m
}

// audited are the lines of the audit log.
func (a *adminRig) audited(t *testing.T) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(a.auditFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	for line := range bytes.Lines(text) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("audit log: %v: %q", err, line)
		}
		all = append(all, m)
	}
	return all
}

// An app's life by curl: through the gateway's own transcoder.
func TestAdminAPIOverJSON(t *testing.T) {
	t.Parallel()
	a := newAdminRig(t, "")
	app := decoded(t, a.api(t, a.ann, "POST", "/admin/v1/apps", `{"id": "web", "name": "Web", "limits": {"rate": 100, "per": "60s", "daily": 5000000000}}`))
	if app["status"] != "ACTIVE" || app["version"] != 1.0 || app["limits"].(map[string]any)["daily"] != 5e9 {
		t.Errorf("created: %v", app)
	}
	a.api(t, a.ann, "POST", "/admin/v1/apps", `{"id": "web"}`).failed(t, 409, codes.AlreadyExists, "APP_EXISTS")
	a.api(t, a.ann, "POST", "/admin/v1/apps", `{"id": "we b"}`).failed(t, 400, codes.InvalidArgument, "BAD_REQUEST")
	a.api(t, a.ann, "POST", "/admin/v1/apps", `{"id": "x", "nmae": "misspelt"}`).failed(t, 400, codes.InvalidArgument, "BAD_REQUEST")
	a.api(t, a.ann, "GET", "/admin/v1/apps/nosuch", "").failed(t, 404, codes.NotFound, "NO_APP")

	// The mask is what the body has; one limit changes and the others stay.
	app = decoded(t, a.api(t, a.ann, "PATCH", "/admin/v1/apps/web", `{"limits": {"burst": 7}, "version": 1}`))
	limits, _ := app["limits"].(map[string]any)
	if limits["rate"] != 100.0 || limits["burst"] != 7.0 || app["name"] != "Web" {
		t.Errorf("changed: %v", app)
	}
	a.api(t, a.ann, "PATCH", "/admin/v1/apps/web", `{"name": "W", "version": 1}`).failed(t, 409, codes.Aborted, "CONFLICT")
	a.api(t, a.ann, "PATCH", "/admin/v1/apps/web", `{"created": "2026-01-01T00:00:00Z"}`).failed(t, 400, codes.InvalidArgument, "BAD_REQUEST")

	// A token, whose secret is shown once, and works.
	issued := decoded(t, a.api(t, a.ann, "POST", "/admin/v1/apps/web/tokens", `{"note": "first", "scopes": ["* /**"], "ttl": "3600s"}`))
	secret, _ := issued["secret"].(string)
	token, _ := issued["token"].(map[string]any)
	id, _ := token["id"].(string)
	passes := func(secret string) answer {
		return a.do(t, a.http1, "GET", "/v1/echo", "", "X-App", "web", "X-Token", secret)
	}
	a.api(t, a.ann, "POST", "/admin/v1/apps/web/tokens/"+id+":revoke", "{}").ok(t, "{}")
	gatewaytest.Eventually(t, func() error {
		if got := passes(secret); got.Status != 401 {
			return fmt.Errorf("%d: %s", got.Status, got.Body)
		}
		return nil
	})
	issued = decoded(t, a.api(t, a.ann, "POST", "/admin/v1/apps/web/tokens", `{"note": "second"}`))
	second, _ := issued["secret"].(string)
	passes(second).ok(t, "")
	a.api(t, a.ann, "POST", "/admin/v1/apps/web:suspend", "{}")
	gatewaytest.Eventually(t, func() error {
		if got := passes(second); got.Status != 403 || !strings.Contains(got.Body, "APP_SUSPENDED") {
			return fmt.Errorf("%d: %s", got.Status, got.Body)
		}
		return nil
	})
	decoded(t, a.api(t, a.ann, "POST", "/admin/v1/apps/web:resume", ""))

	// Each gateway is asked, and says the same.
	verified := decoded(t, a.api(t, a.bob, "POST", "/admin/v1/tokens:verify", fmt.Sprintf(`{"app": "web", "token": %q, "all_nodes": true}`, secret)))
	nodes, _ := verified["nodes"].([]any)
	if verified["verdict"] != "revoked" || len(nodes) != 1 || nodes[0].(map[string]any)["verdict"] != "revoked" {
		t.Errorf("verified: %v", verified)
	}

	// Pages, and what operators of the read role may see.
	page := decoded(t, a.api(t, a.bob, "GET", "/admin/v1/apps/web/tokens?page_size=1", ""))
	next, _ := page["next_page_token"].(string)
	if next == "" {
		t.Errorf("a page of one: %v", page)
	}
	decoded(t, a.api(t, a.bob, "GET", "/admin/v1/apps/web/tokens?page_size=1&page_token="+next, ""))
	decoded(t, a.api(t, a.bob, "GET", "/admin/v1/apps/web/usage?from=2026-01-01&to=2026-01-31", ""))
	a.api(t, a.bob, "POST", "/admin/v1/apps/web:suspend", "{}").failed(t, 403, codes.PermissionDenied, "OPERATOR_READS_ONLY")
	a.api(t, a.bob, "GET", "/admin/v1/records", "").failed(t, 403, codes.PermissionDenied, "OPERATOR_READS_ONLY")

	// Records come as lines, and go in as lines.
	records := a.api(t, a.ann, "GET", "/admin/v1/records", "")
	if records.Status != 200 || strings.Count(strings.TrimSpace(records.Body), "\n") < 3 || strings.Contains(records.Body, "rpg_") {
		t.Errorf("records, %d: %s", records.Status, records.Body)
	}
	sum := decoded(t, a.api(t, a.ann, "POST", "/admin/v1/records:import?existing=SKIP&dry_run=true", records.Body, "Content-Type", "application/x-ndjson"))
	if sum["kept"] == nil || sum["created"] != nil {
		t.Errorf("imported what was there: %v", sum)
	}

	// What it all was is in the audit log, once, and nothing that is secret.
	text, err := os.ReadFile(a.auditFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{"rpg_", a.ann, a.bob, secret} {
		if bytes.Contains(text, []byte(hidden)) {
			t.Errorf("the audit log has a secret: %s", text)
		}
	}
	var did []string
	for _, e := range a.audited(t) {
		if e["operator"] == nil || e["from"] != "127.0.0.1" || e["time"] == nil {
			t.Errorf("audited: %v", e)
		}
		method, _ := e["method"].(string)
		did = append(did, fmt.Sprintf("%v %s %v", e["operator"], strings.TrimPrefix(method, "rpcgate.admin.v1."), e["result"]))
	}
	for _, want := range []string{
		"ann AppService/CreateApp OK", "ann AppService/CreateApp ALREADY_EXISTS", "ann TokenService/IssueToken OK",
		"ann TokenService/RevokeToken OK", "bob AppService/SuspendApp PERMISSION_DENIED", "ann TransferService/ExportRecords OK",
	} {
		if !slices.Contains(did, want) {
			t.Errorf("the audit log lacks %q: %q", want, did)
		}
	}
	if info, err := os.Stat(a.auditFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the audit log is %v, %v", info.Mode(), err)
	}
	// It may be moved away at any time.
	if err := os.Rename(a.auditFile, a.auditFile+".1"); err != nil {
		t.Fatal(err)
	}
	decoded(t, a.api(t, a.ann, "POST", "/admin/v1/apps/web:resume", "{}"))
	if got := a.audited(t); len(got) != 1 {
		t.Errorf("after a rotation: %v", got)
	}
	trail := decoded(t, a.api(t, a.bob, "GET", "/admin/v1/audit?page_size=1", ""))
	if entries, _ := trail["entries"].([]any); len(entries) != 1 || entries[0].(map[string]any)["app"] != "web" {
		t.Errorf("the trail: %v", trail)
	}
}

// Who is no operator learns nothing, and nothing of the port's own endpoints but
// those that are open.
func TestAdminAPIRefuses(t *testing.T) {
	t.Parallel()
	a := newAdminRig(t, "")
	a.api(t, "", "GET", "/admin/v1/apps", "").failed(t, 401, codes.Unauthenticated, "OPERATOR_MISSING")
	a.api(t, "rpgop_wrong", "GET", "/admin/v1/apps", "").failed(t, 401, codes.Unauthenticated, "OPERATOR_UNKNOWN")
	a.api(t, a.ann+"x", "GET", "/admin/v1/apps", "").failed(t, 401, codes.Unauthenticated, "OPERATOR_UNKNOWN")
	// An app's credential is none of an operator.
	a.api(t, a.app+"."+a.token, "GET", "/admin/v1/apps", "").failed(t, 401, codes.Unauthenticated, "OPERATOR_UNKNOWN")

	order := `{"method": "testbackend.Echo/Unary", "state": "auto"}`
	for _, tc := range []struct {
		token, method, path, body string
		status                    int
	}{
		{"", "GET", "/healthz", "", 200}, {"", "GET", "/readyz", "", 200}, {"", "GET", "/metrics", "", 200},
		{"", "GET", "/backends", "", 200}, {"", "GET", "/openapi.json", "", 200}, {"", "GET", "/admin/openapi.json", "", 200},
		{"", "GET", "/debug/pprof/cmdline", "", 401}, {a.bob, "GET", "/debug/pprof/cmdline", "", 200},
		{"", "POST", "/backends/echo/breakers", order, 401}, {a.bob, "POST", "/backends/echo/breakers", order, 403},
		{a.ann, "POST", "/backends/nosuch/breakers", order, 404},
		{a.ann, "GET", "/admin/v1/nothing", "", 404},
	} {
		if got := a.api(t, tc.token, tc.method, tc.path, tc.body); got.Status != tc.status {
			t.Errorf("%s %s with token %t: %d, want %d: %.200s", tc.method, tc.path, tc.token != "", got.Status, tc.status, got.Body)
		}
	}

	// Web pages do nothing here, whatever credential a browser adds.
	for name, header := range map[string][]string{
		"another origin": {"Origin", "https://evil.example"}, "the same origin": {"Sec-Fetch-Site", "same-origin"},
		"a form": {"Content-Type", "application/x-www-form-urlencoded"}, "plain text": {"Content-Type", "text/plain; charset=utf-8"},
	} {
		got := a.api(t, a.ann, "POST", "/admin/v1/apps", `{"id": "evil"}`, header...)
		if got.Status != 403 && got.Status != 415 {
			t.Errorf("%s: %d: %s", name, got.Status, got.Body)
		}
	}
	a.api(t, a.ann, "GET", "/admin/v1/apps/evil", "").failed(t, 404, codes.NotFound, "NO_APP")

	// Whoever goes on failing is told to wait, and fills no disk; a right token
	// passes all the same.
	var last answer
	for range 60 {
		last = a.api(t, "rpgop_guess", "GET", "/admin/v1/apps", "")
	}
	last.failed(t, 429, codes.ResourceExhausted, "OPERATOR_FAILS_OFTEN")
	decoded(t, a.api(t, a.ann, "GET", "/admin/v1/apps", ""))
	if n := len(a.audited(t)); n < 10 || n > 45 {
		t.Errorf("%d attempts are in the audit log", n)
	}
}

// Without operators there is no API.
func TestAdminAPIIsOffByDefault(t *testing.T) {
	t.Parallel()
	r, _ := newEchoRig(t, "", "")
	a := &adminRig{rig: r}
	if got := a.api(t, "rpgop_x", "GET", "/admin/v1/apps", ""); got.Status != 404 {
		t.Errorf("%d: %s", got.Status, got.Body)
	}
	_, err := adminpb.NewAppServiceClient(dial(t, r.Admin)).ListApps(limited(t), &adminpb.ListAppsRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("over gRPC: %v", err)
	}
}

// Over gRPC, and by the command line in both ways: it is the same record, and the
// same line in the audit log, but for who did it from where.
func TestAdminAPIOverGRPCAndByCommand(t *testing.T) {
	t.Parallel()
	a := newAdminRig(t, "")
	conn := dial(t, a.Admin)
	ctx := metadata.AppendToOutgoingContext(limited(t), "authorization", "Bearer "+a.ann)
	apps, tokens := adminpb.NewAppServiceClient(conn), adminpb.NewTokenServiceClient(conn)
	limits := &adminpb.Limits{Rate: 10, Per: durationpb.New(1e9), Daily: 1000}
	if _, err := apps.CreateApp(ctx, &adminpb.CreateAppRequest{App: &adminpb.App{Id: "by-grpc", Name: "N", Limits: limits}}); err != nil {
		t.Fatal(err)
	}
	local := filepath.Join(t.TempDir(), "local.jsonl")
	for app, where := range map[string][]string{
		"by-redis":  {"--redis", a.redis.Addr, "--audit-log", local},
		"by-remote": {"--admin", a.Admin, "--operator-token-file", a.annFile},
	} {
		stdout, stderr, exit := gatewaytest.Run(t, append([]string{"app", "create", "--app", app, "--name", "N", "--rate", "10/s", "--daily", "1000"}, where...)...)
		if exit != 0 || !strings.Contains(stdout, app) {
			t.Fatalf("%s: exit %d: %s", app, exit, stderr)
		}
	}
	want, err := apps.GetApp(ctx, &adminpb.GetAppRequest{App: "by-grpc"})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"by-redis", "by-remote"} {
		got, err := apps.GetApp(ctx, &adminpb.GetAppRequest{App: id})
		if err != nil {
			t.Fatal(err)
		}
		got.Id, got.Created, got.Updated = want.GetId(), want.GetCreated(), want.GetUpdated()
		if got.String() != want.String() {
			t.Errorf("%s: %v, over gRPC %v", id, got, want)
		}
	}
	lines := a.audited(t)
	text, err := os.ReadFile(local)
	if err != nil {
		t.Fatal(err)
	}
	var fromCLI map[string]any
	if err := json.Unmarshal(text, &fromCLI); err != nil {
		t.Fatal(err)
	}
	if fromCLI["from"] != "cli" || fromCLI["operator"] == nil {
		t.Errorf("by the command line: %v", fromCLI)
	}
	for _, line := range append(lines, fromCLI) {
		for _, own := range []string{"time", "app", "operator", "from"} {
			delete(line, own)
		}
		if got := fmt.Sprint(line); got != fmt.Sprint(lines[0]) {
			t.Errorf("audited %s, and %v", got, lines[0])
		}
	}

	// Tokens: masks, and errors with reasons.
	issued, err := tokens.IssueToken(ctx, &adminpb.IssueTokenRequest{App: "by-grpc", Networks: []string{"192.0.2.0/24"}})
	if err != nil || issued.GetSecret() == "" || issued.GetNewApp() {
		t.Fatalf("%v, %v", issued, err)
	}
	changed, err := tokens.UpdateToken(ctx, &adminpb.UpdateTokenRequest{
		Token:      &adminpb.Token{App: "by-grpc", Id: issued.GetToken().GetId(), Limits: &adminpb.Limits{Concurrency: 3}, Note: "ignored"},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"networks", "limits.concurrency"}},
	})
	if err != nil || len(changed.GetNetworks()) != 0 || changed.GetLimits().GetConcurrency() != 3 || changed.GetNote() != "" {
		t.Errorf("%v, %v", changed, err)
	}
	rotated, err := tokens.RotateToken(ctx, &adminpb.RotateTokenRequest{App: "by-grpc", Id: issued.GetToken().GetId(), Grace: durationpb.New(60e9)})
	if err != nil || rotated.GetSecret() == issued.GetSecret() {
		t.Fatalf("%v", err)
	}
	_, err = tokens.RotateToken(ctx, &adminpb.RotateTokenRequest{App: "by-grpc", Id: issued.GetToken().GetId()})
	grpcFailed(t, err, codes.FailedPrecondition, "TOKEN_REPLACED")
	_, err = tokens.RevokeToken(ctx, &adminpb.RevokeTokenRequest{App: "by-grpc"})
	grpcFailed(t, err, codes.InvalidArgument, "BAD_REQUEST")
	_, err = apps.ListApps(limited(t), &adminpb.ListAppsRequest{})
	grpcFailed(t, err, codes.Unauthenticated, "OPERATOR_MISSING")

	// A whole token in the place of its id is nowhere in the log.
	_, err = tokens.RevokeToken(ctx, &adminpb.RevokeTokenRequest{App: "by-grpc", Id: rotated.GetSecret()})
	grpcFailed(t, err, codes.NotFound, "NO_TOKEN")
	if text, _ := os.ReadFile(a.auditFile); bytes.Contains(text, []byte(rotated.GetSecret())) || !bytes.Contains(text, []byte("(malformed)")) {
		t.Errorf("the audit log: %s", text)
	}

	// Both sides of a stream.
	exported, err := adminpb.NewTransferServiceClient(conn).ExportRecords(ctx, &adminpb.ExportRecordsRequest{})
	records := 0
	for err == nil {
		if _, err = exported.Recv(); err == nil {
			records++
		}
	}
	if !errors.Is(err, io.EOF) || records < 4 {
		t.Errorf("%d records, %v", records, err)
	}
}

// By certificate: the operator is who it says, and the rest of the port needs
// none.
func TestAdminAPIByCertificate(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	server, carol, mallory := ca.issue("server", 2), ca.issue("carol", 3), ca.issue("mallory", 4)
	a := newAdminRig(t, fmt.Sprintf("  tls: {cert_file: %s, key_file: %s, client_ca_file: %s}\n", server.cert, server.key, ca.file))
	ask := func(certs []tls.Certificate, token, method, path, body string) answer {
		config := ca.client()
		config.Certificates = certs
		transport := &http.Transport{TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		return a.apiBy(t, &http.Client{Transport: transport}, "https://"+a.Admin, token, method, path, body)
	}
	decoded(t, ask([]tls.Certificate{carol.load(t)}, "", "POST", "/admin/v1/apps", `{"id": "certified"}`))
	ask([]tls.Certificate{mallory.load(t)}, "", "GET", "/admin/v1/apps", "").failed(t, 401, codes.Unauthenticated, "OPERATOR_UNKNOWN")
	ask(nil, "", "GET", "/admin/v1/apps", "").failed(t, 401, codes.Unauthenticated, "OPERATOR_MISSING")
	decoded(t, ask(nil, a.bob, "GET", "/admin/v1/apps", ""))
	// A wrong token is refused, whoever else one would be.
	ask([]tls.Certificate{carol.load(t)}, "rpgop_wrong", "GET", "/admin/v1/apps", "").failed(t, 401, codes.Unauthenticated, "OPERATOR_UNKNOWN")
	if got := ask(nil, "", "GET", "/healthz", ""); got.Status != 200 {
		t.Errorf("health: %d", got.Status)
	}
	// So is what is no token, as of a variable that is not set.
	byCarol := ca.client()
	byCarol.Certificates = []tls.Certificate{carol.load(t)}
	transport := &http.Transport{TLSClientConfig: byCarol}
	defer transport.CloseIdleConnections()
	a.apiBy(t, &http.Client{Transport: transport}, "https://"+a.Admin, "", "GET", "/admin/v1/apps", "", "Authorization", "Bearer ").
		failed(t, 401, codes.Unauthenticated, "OPERATOR_UNKNOWN")
	// Another authority's certificate does not even connect.
	other := newAuthority(t).issue("carol", 5)
	config := ca.client()
	config.Certificates = []tls.Certificate{other.load(t)}
	_, err := adminpb.NewAppServiceClient(dialTLS(t, a.Admin, config)).ListApps(limited(t), &adminpb.ListAppsRequest{}, grpc.WaitForReady(false))
	if status.Code(err) != codes.Unavailable && status.Code(err) != codes.Unauthenticated {
		t.Errorf("another authority's: %v", err)
	}

	stdout, stderr, exit := gatewaytest.Run(t, "app", "show", "--app", "certified", "--admin", "https://"+a.Admin,
		"--ca-file", ca.file, "--cert-file", carol.cert, "--key-file", carol.key)
	if exit != 0 || !strings.Contains(stdout, "certified") {
		t.Errorf("by command: exit %d: %s", exit, stderr)
	}
	if stdout, stderr, exit := gatewaytest.Run(t, "health", "--admin", "https://"+a.Admin, "--ca-file", ca.file); exit != 0 {
		t.Errorf("health by command: exit %d: %s%s", exit, stdout, stderr)
	}
	stdout, stderr, exit = gatewaytest.Run(t, "breaker", "open", "--backend", "echo", "--method", "testbackend.Echo/Unary",
		"--admin", a.Admin, "--ca-file", ca.file, "--cert-file", carol.cert, "--key-file", carol.key, "--by", "somebody")
	if exit != 0 || !strings.Contains(stdout, "forced by carol from 127.0.0.1") {
		t.Errorf("breaker: exit %d: %s%s", exit, stdout, stderr)
	}
	found := false
	for _, e := range a.audited(t) {
		found = found || e["operator"] == "carol" && e["app"] == "certified"
	}
	if !found {
		t.Errorf("the audit log: %v", a.audited(t))
	}
}

// A change that cannot be noted is not made.
func TestAdminAPIWithoutItsAuditLog(t *testing.T) {
	t.Parallel()
	a := newAdminRig(t, "")
	if err := os.Remove(a.auditFile); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(a.auditFile, 0o700); err != nil {
		t.Fatal(err)
	}
	a.api(t, a.ann, "POST", "/admin/v1/apps", `{"id": "unnoted"}`).failed(t, 503, codes.Unavailable, "AUDIT_UNAVAILABLE")
	a.api(t, a.ann, "GET", "/admin/v1/apps/unnoted", "").failed(t, 404, codes.NotFound, "NO_APP")
	order := `{"method": "testbackend.Echo/Unary", "state": "open"}`
	if got := a.api(t, a.ann, "POST", "/backends/echo/breakers", order); got.Status != 503 {
		t.Errorf("a breaker: %d: %s", got.Status, got.Body)
	}
	if got := a.api(t, "", "GET", "/backends/echo", ""); strings.Contains(got.Body, "forced by") {
		t.Errorf("a breaker was forced: %s", got.Body)
	}
}

// What was ordered of breakers is in the audit log, and not only where.
func TestBreakerOrdersAreAudited(t *testing.T) {
	t.Parallel()
	a := newAdminRig(t, "")
	for _, tc := range []struct {
		body   string
		status int
		want   string
	}{
		{
			`{"method": "testbackend.Echo/Unary", "state": "open", "for": "5m"}`, 200,
			"map[fields:[method=/testbackend.Echo/Unary state=open for=5m0s] from:127.0.0.1 method:POST /backends/echo/breakers operator:ann result:OK]",
		},
		{
			`{"method": "testbackend.Echo/Unary", "state": "auto"}`, 200,
			"map[fields:[method=/testbackend.Echo/Unary state=auto] from:127.0.0.1 method:POST /backends/echo/breakers operator:ann result:OK]",
		},
		{
			`{"method": "testbackend.Echo/Nothing", "state": "open"}`, 404,
			"map[from:127.0.0.1 method:POST /backends/echo/breakers operator:ann result:NOT_FOUND]",
		},
	} {
		if got := a.api(t, a.ann, "POST", "/backends/echo/breakers", tc.body); got.Status != tc.status {
			t.Errorf("%s: %d: %s", tc.body, got.Status, got.Body)
		}
		lines := a.audited(t)
		last := lines[len(lines)-1]
		delete(last, "time")
		if got := fmt.Sprint(last); got != tc.want {
			t.Errorf("audited %s, want %s", got, tc.want)
		}
	}
}

// Operators' tools learn by reflection what there is; nobody else does, and the
// ports of the apps tell nothing of it.
func TestAdminReflection(t *testing.T) {
	t.Parallel()
	a := newAdminRig(t, "")
	services := func(address, token string) (string, error) {
		ctx := limited(t)
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		}
		stream, err := reflectionpb.NewServerReflectionClient(dial(t, address)).ServerReflectionInfo(ctx)
		if err != nil {
			return "", err
		}
		if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		answer, err := stream.Recv()
		return answer.String(), err
	}
	if got, err := services(a.Admin, a.bob); err != nil || !strings.Contains(got, "rpcgate.admin.v1.TokenService") || strings.Contains(got, "Echo") {
		t.Errorf("to an operator: %s, %v", got, err)
	}
	if got, err := services(a.Admin, ""); status.Code(err) != codes.Unauthenticated {
		t.Errorf("to anybody: %s, %v", got, err)
	}
	if got, err := services(a.GRPC, ""); strings.Contains(got, "admin") {
		t.Errorf("on the gRPC port: %s, %v", got, err)
	}
}

// The ports of the apps serve nothing of the admin port, and it nothing of theirs.
func TestAdminAPIIsOnItsOwnPortAlone(t *testing.T) {
	t.Parallel()
	a := newAdminRig(t, "")
	for _, path := range []string{"/admin/v1/apps", "/admin/v1/records", "/rpcgate.admin.v1.AppService/ListApps"} {
		got := a.do(t, a.http1, "GET", path, "", "Authorization", "Bearer "+a.ann)
		got.failed(t, 404, codes.NotFound, "NO_ROUTE")
	}
	ctx := metadata.AppendToOutgoingContext(limited(t), "authorization", "Bearer "+a.ann)
	_, err := adminpb.NewAppServiceClient(dial(t, a.GRPC)).ListApps(ctx, &adminpb.ListAppsRequest{})
	grpcFailed(t, err, codes.Unimplemented, "NO_ROUTE")
	for _, path := range []string{"/v1/echo", "/testbackend.Echo/Unary"} {
		if got := a.api(t, a.ann, "POST", path, "{}"); got.Status != 404 {
			t.Errorf("%s: %d: %s", path, got.Status, got.Body)
		}
	}
}
