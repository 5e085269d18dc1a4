package config_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/config"
)

// Each text is put after the minimal configuration, whose last line is the
// fifth and indented as a backend's keys are. The wanted faults are
// `line:column: key: message`, of the message a part.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"unknown key":           {"    timeuot: 2s\n", []string{`6:5: backends[0].timeuot: unknown key; did you mean "timeout"?`}},
		"unknown key, camel":    {"http: {maxBodySize: 1}\n", []string{`6:8: http.maxBodySize: unknown key; did you mean "max_body_size"?`}},
		"unknown key, far off":  {"auth: {gozero: {xyzzy: 1, key: a}}\n", []string{`6:17: auth.gozero.xyzzy: unknown key; known here: key`}},
		"duplicate key":         {"    timeout: 2s\n    timeout: 3s\n", []string{"7:5: backends[0].timeout: duplicate key; the first is in line 6"}},
		"list for a section":    {"http: [a]\n", []string{"6:7: http: is a list, but a section with keys is wanted"}},
		"text for a list":       {"    services: shop.Shop\n", []string{"6:15: backends[0].services: is text, but a list is wanted"}},
		"section for a value":   {"    timeout: {a: 1}\n", []string{"6:14: backends[0].timeout: is a section with keys, but a duration like 2s is wanted"}},
		"number for text":       {"    target: 5\n", []string{"6:13: backends[0].target: is a number, but text is wanted; put it in quotes"}},
		"text for a number":     {"redos: 1\nhttp: {max_concurrent_streams: many}\n", []string{`6:1: redos: unknown key; did you mean "redis"?`, "7:32: http.max_concurrent_streams: is not a number"}},
		"quoted number":         {"http: {max_concurrent_streams: '5'}\n", []string{"without quotes"}},
		"text for a switch":     {"    annotations: yes\n", []string{"6:18: backends[0].annotations: is not true or false"}},
		"duration without unit": {"    timeout: 2\n", []string{`6:14: backends[0].timeout: "2" has no unit: write a duration like 500ms, 2s or 1h30m; did you mean 2s?`}},
		"duration in days":      {"    timeout: 2d\n", []string{`"2d" is not a duration`}},
		"negative duration":     {"    timeout: -2s\n", []string{"6:14: backends[0].timeout: is too small: the least is 0"}},
		"size with odd unit":    {"http: {max_body_size: 4mb}\n", []string{`6:23: http.max_body_size: "4mb" is not a size: its unit is none of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB; did you mean 4MB?`}},
		"too large":             {"log: {success_sample: 1.5}\n", []string{"6:23: log.success_sample: is too large: the most is 1"}},
		"overflow":              {"http: {max_concurrent_streams: 4294967296}\n", []string{"whole number from 0 to 4294967295"}},
		"not a number":          {"log: {success_sample: .nan}\n", []string{"is not a number"}},
		"enum":                  {"    breaker: {kind: adaptiv}\n", []string{`6:21: backends[0].breaker.kind: "adaptiv" is none of adaptive, threshold, off; did you mean "adaptive"?`}},
		"empty enum":            {"    auth: ''\n", []string{"is empty; it is one of required, none"}},
		"empty value":           {"    timeout:\n", []string{"6:13: backends[0].timeout: has no value"}},
		"empty optional":        {"    tls:\n", []string{"6:9: backends[0].tls: has nothing in it; write {} for its defaults"}},
		"unset variable":        {"    target: ${NOWHERE}\n", []string{"6:13: backends[0].target: needs the environment variable NOWHERE, which is not set"}},
		"malformed reference":   {"    target: ${NOWHERE\n    auth: ${1}\n    credentials: ${A:-${B}}\n", []string{"6:13: backends[0].target: has a ${ without its }", "7:11: backends[0].auth: has a reference", "8:18: backends[0].credentials: has a ${ in the default of A"}},
		"custom tag":            {"http: !env {}\n", []string{`6:7: http: the YAML tag "!env" means nothing here`}},
		"alias in itself":       {"routes: &r\n  - {method: a.B/C, http: &h {get: /, additional_bindings: [*h]}}\n", []string{"7:61: routes[0].http.additional_bindings[0].additional_bindings[0]: the alias *h stands inside of what it names"}},
		"merge into itself":     {"http: &h {<<: *h}\n", []string{"<< merges a section into itself"}},
		"merge of text":         {"http: {<<: a}\n", []string{"6:12: http: << takes a section with keys"}},
		"key is a list":         {"http: {[a]: b}\n", []string{"6:8: http: a key is a list"}},

		"address":            {"http: {address: 8080}\ngrpc: {address: localhost}\nadmin: {address: ':http'}\n", []string{"6:17: http.address: is a number", "7:17: grpc.address: \"localhost\" is not host:port", "8:18: admin.address: \":http\" has a port that is not a number"}},
		"same port":          {"grpc: {address: '127.0.0.1:8080'}\n", []string{"6:17: grpc.address: is the port of http.address too"}},
		"all off":            {"http: {address: off}\ngrpc: {address: off}\n", []string{"6:17: http.address: both http.address and grpc.address are off"}},
		"trusted proxies":    {"http: {trusted_proxies: [10.0.0.1, '::1/128', 10.0.0.0/33, x]}\n", []string{"6:47: http.trusted_proxies[2]", "6:60: http.trusted_proxies[3]"}},
		"server TLS":         {"http: {tls: {cert_file: none.crt}}\ngrpc: {tls: {cert_file: load.go, key_file: load.go, client_ca_file: load.go}}\n", []string{"6:8: http.tls: needs key_file", "7:25: grpc.tls.cert_file: \"load.go\": the file holds no PEM certificate", "grpc.tls.client_ca_file: \"load.go\""}},
		"client TLS":         {"    tls: {cert_file: a, insecure_skip_verify: true, ca_file: none.crt}\n", []string{"6:5: backends[0].tls: has cert_file, so it needs key_file too", "6:47: backends[0].tls.insecure_skip_verify", "6:62: backends[0].tls.ca_file: \"none.crt\": no such file"}},
		"admin TLS":          {"admin: {tls: {cert_file: none.crt}}\n", []string{"6:9: admin.tls: needs key_file"}},
		"operators":          {"admin: {operators: [{}, {name: ann, token_hash: abc}, {name: ann, token_hash: 'b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9'}, {name: \"b\\n\", token_hash: 'b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9', certificate: b}, {name: c, token_hash_file: none, role: root}]}\n", []string{"6:21: admin.operators[0]: needs name", "6:21: admin.operators[0]: needs token_hash, token_hash_file or certificate", "admin.operators[1].token_hash: is no SHA-256 in hex", "admin.operators[2].name: \"ann\" stands in the list already", "admin.operators[3].name: must be up to 100 printable bytes", "admin.operators[3].token_hash: is another operator's", "admin.operators[3].certificate: needs admin.tls.client_ca_file", "admin.operators[4].token_hash_file: \"none\": no such file", `admin.operators[4].role: "root" is none of read, write`}},
		"register":           {"register: {key: a/, advertise: '0.0.0.0:1', ttl: 1500ms}\n", []string{"etcd: needs endpoints", "6:17: register.key: \"a/\" ends with a slash", "register.advertise", "register.ttl: etcd counts"}},
		"etcd":               {"etcd: {endpoints: ['http://u:p@h:1', 'ftp://a:1', 'http://h:1/x', 'h:1', 'h:1', 'unix:///a'], password: a}\n", []string{"6:1: etcd: has a password", "endpoints[0]: \"http://…@h:1\" has a user in it", "endpoints[1]", "endpoints[2]", "endpoints[4]: \"h:1\" stands in the list already"}},
		"consul":             {"  - {name: a, reflection: true, consul: {service: a/b, tag: 'x y'}}\n  - {name: b, reflection: true, consul: {}}\nconsul: {token: 'a b', datacenter: 'dc 1', wait_time: 1h}\n", []string{"8:1: consul: needs address: a backend names a Consul service", `6:51: backends[1].consul.service: "a/b" has a blank, a slash`, `6:61: backends[1].consul.tag: "x y" has a blank`, "7:33: backends[2].consul: needs service", "8:17: consul.token: has a blank", "8:36: consul.datacenter", "8:55: consul.wait_time: is too large"}},
		"consul's address":   {"consul: {address: 'http://u:p@a:1', tls: {cert_file: a}}\n", []string{`6:19: consul.address: "http://…@a:1" is a URL`, "consul.tls: has cert_file, so it needs key_file"}},
		"kubernetes":         {"  - {name: a, reflection: true, kubernetes: {service: Shop, namespace: a.b, port: 70000}}\n  - {name: b, reflection: true, kubernetes: {port: '80'}}\n  - {name: c, reflection: true, kubernetes: {service: shop, port: '70000'}}\n", []string{`backends[1].kubernetes.service: "Shop" is not the name of a service`, `backends[1].kubernetes.namespace: "a.b" is not the name of a namespace`, "backends[1].kubernetes.port: is a number", "backends[2].kubernetes: needs service", `backends[3].kubernetes.port: "70000" is neither the name nor the number`}},
		"kubernetes, http":   {"kubernetes: {address: 'http://k:6443', token_file: none}\n", []string{`6:23: kubernetes.address: "http://k:6443" would have the token go in clear text`}},
		"kubernetes, TLS":    {"kubernetes: {address: 'http://k:6443', tls: {}}\n", []string{"6:40: kubernetes.tls: does nothing"}},
		"kubernetes, host":   {"kubernetes: {address: 'https://u:p@k'}\n", []string{`6:23: kubernetes.address: "https://…@k" has a user in it`}},
		"kubernetes, bare":   {"kubernetes: {address: 'k:6443'}\n", []string{`6:23: kubernetes.address: "k:6443" is not a URL`}},
		"kubernetes, query":  {"kubernetes: {address: 'https://k/x?y'}\n", []string{"6:23: kubernetes.address: \"https://k/x?y\" has something behind the path"}},
		"targets elsewhere":  {"  - {name: a, reflection: true, target: 'consul:///shop'}\n  - {name: b, reflection: true, target: 'kubernetes:///shop'}\n", []string{`"consul:///shop" is for consul; use the key consul instead`, `"kubernetes:///shop" is for kubernetes; use the key`}},
		"dns":                {"dns: {interval: 10ms}\n", []string{"6:17: dns.interval: is too small: the least is 1s"}},
		"auth":               {"auth: {key_prefix: '{a}', gozero: {}}\n", []string{"6:20: auth.key_prefix", "6:27: auth.gozero: needs key"}},
		"protocols":          {"http: {protocols: []}\n", []string{"6:8: http.protocols: is empty"}},
		"lists":              {"http: {protocols: [json, grpcweb, json], compression: {encodings: [gzip, br, gzip]}}\n", []string{`6:26: http.protocols[1]: "grpcweb" is none of json, grpc, grpc_web, connect; did you mean "grpc_web"?`, `6:35: http.protocols[2]: "json" stands in the list already`, `encodings[1]: "br" is none of zstd, gzip`, "encodings[2]"}},
		"cors":               {"http: {cors: {allowed_origins: ['*', a.example, 'https://*.*', 'https://a/', 'null', 'https://u:p@a'], allow_credentials: true, allowed_methods: ['G T', '*'], allowed_headers: ['*', a b], exposed_headers: ['*']}}\n", []string{`allowed_origins[1]: "a.example" is not an origin`, "allowed_origins[2]: \"https://*.*\" has more than one *", "allowed_origins[3]", "allowed_origins[4]", `allowed_origins[5]: "https://…@a" has more than`, "http.cors.allow_credentials: is not for pages of any origin", "allowed_methods[0]", "allowed_methods[1]", "allowed_headers[1]", "exposed_headers[0]"}},
		"cors, open":         {"http: {cors: {allowed_origins: ['https://*'], allow_credentials: true, allowed_methods: []}, streams: {allowed_origins: [x]}}\n", []string{"http.cors.allow_credentials", "allowed_methods: is empty", "http.streams.allowed_origins[0]"}},
		"header rules":       {"    headers: {request: {allow: [X-A, 'x-b*', '*', 'x*y', 'a b', Authorization], deny: ['grpc-*', ':path', Connection]}}\n", []string{`allow[3]: "x*y" has a * before its end`, "allow[4]: \"a b\" is not the name", "allow[5]: \"Authorization\" is not for rules", `deny[0]: "grpc-*" is not for rules`, "deny[1]: \":path\" is HTTP/2's own", "deny[2]"}},
		"headers renamed":    {"routes: [{method: a.B/C, headers: {response: {rename: {a: B, b: x-b, c: te, 'd*': e, f: 'g*', A: h, i-bin: j}}}}]\n", []string{`rename.a: "B" is renamed itself`, `rename.c: "te" is not for rules`, `rename["d*"]: "d*" has a *`, `rename.f: "g*" has a *`, `rename.a: is the same name as "A"`, "rename.i-bin: names that end in -bin"}},
		"headers set":        {"routes: [{method: a.B/C, headers: {request: {set: {a: ä, b: ' x', token: x, c-bin: AQ, d: ok}}}}]\n", []string{"set.a: has characters other than printable ASCII", "set.b: begins or ends with a blank", "set.token: \"token\" is not for rules", "set.c-bin: names that end in -bin"}},
		"second backend":     {"  - {name: shop, target: 'x://y', etcd: {key: ''}, protoset: [none], reflection: true}\n", []string{"1:1: etcd: needs endpoints", "6:12: backends[1].name: \"shop\" is the name of backends[0] too", "target: \"x://y\" has a scheme", "etcd and target are set, but only one may say where it is", "backends[1].etcd: needs key", "reflection and protoset are set", "protoset[0]: \"none\": no such file"}},
		"bare backend":       {"  - {}\n", []string{"6:5: backends[1]: needs name", "6:5: backends[1]: needs one of endpoints, etcd, consul, kubernetes, target", "6:5: backends[1]: needs one of reflection, protoset, proto"}},
		"backend's name":     {"  - {name: a b, endpoints: [a:1], reflection: true}\n", []string{`6:12: backends[1].name: "a b" is not a name`}},
		"proto":              {"  - {name: a, endpoints: [a:1], proto: {files: [../x.proto, none.proto], import_paths: [nowhere]}}\n", []string{"proto.files[0]: \"../x.proto\" is not relative", "proto.files[1]: \"none.proto\" is in none", "import_paths[0]: \"nowhere\": no such file"}},
		"endpoints":          {"  - {name: a, endpoints: [':1', 'a', 'a:0', 'a:1', 'a:1', '-:1', '[::1]:1', 'a_b:1'], reflection: true}\n", []string{"endpoints[0]: \":1\" has no host", "endpoints[1]", "endpoints[2]", "endpoints[4]", "endpoints[5]"}},
		"services":           {"    services: [a.B, a.B, a/B]\n    method_timeouts: {a.B/C: 1s, a.D/C: 1s, /a.B/C: 1s, a.B/E: 5ms}\n", []string{"6:21: backends[0].services[1]", "6:26: backends[0].services[2]", `7:41: backends[0].method_timeouts["a.D/C"]: its service is not among`, `method_timeouts["/a.B/C"]: "/a.B/C" begins with a slash`, `method_timeouts["a.B/E"]: must be longer than deadline_reserve`}},
		"breaker":            {"    breaker: {kind: threshold, adaptive: {k: 1, window: 10ms}, threshold: {consecutive_failures: 0}}\n", []string{"adaptive.k: must be above 1", "adaptive.buckets: are too many", "threshold: would never open"}},
		"balancer and conn":  {"    balancer: {hash_header: X-App}\n    conn: {keepalive_time: 1s}\n", []string{"6:29: backends[0].balancer.hash_header", "7:28: backends[0].conn.keepalive_time: is too short"}},
		"route":              {"routes:\n  - {method: a.B.C, http: {get: x, post: /, additional_bindings: [{custom: {}, additional_bindings: [{}]}]}, backend: shpo}\n", []string{"has no slash before the method", "there is no backend \"shpo\"; did you mean \"shop\"?", "7:33: routes[0].http.get: \"x\" does not begin with a slash", "get and post are set", "custom: needs kind", "custom: needs path", "additional bindings have none of their own"}},
		"route without verb": {"routes: [{method: a.B/C, http: {body: '*'}}]\n", []string{"6:26: routes[0].http: needs one of get, put, post, delete, patch, custom"}},
		"idle route":         {"routes: [{method: a.B/C}, {method: a.B/D, timeout: 1s}, {method: a.B/D, auth: none}]\n", []string{"6:10: routes[0]: does nothing", "6:57: routes[2]: sets policies for the method that routes[1]"}},
		"fallbacks":          {"routes: [{method: a.B/C, fallback: {}}, {method: a.B/D, fallback: {response: '{}', backend: shop, on: []}}, {method: a.B/E, backend: shop, fallback: {backend: shpo, on: [NOT_FOUND, UNAVAILABLE]}}, {method: a.B/F, backend: shop, fallback: {backend: shop}}]\n", []string{"6:26: routes[0].fallback: needs one of response, backend, last_good", "6:93: routes[1].fallback.backend: response and backend are set", "routes[1].fallback.backend: both backends serve the method", "routes[1].fallback.on: is empty", "routes[2].fallback.backend: there is no backend \"shpo\"; did you mean \"shop\"?", `routes[2].fallback.on[0]: "NOT_FOUND" is none of`, "routes[3].fallback.backend: is the backend that it is to stand in for"}},
		"outcome":            {"routes: [{method: a.B/C, outcome: {ok: ['0', '0']}}, {method: a.B/D, outcome: {field: 'a..b', ok: []}}]\n", []string{"6:26: routes[0].outcome: needs field", "routes[0].outcome.ok[1]: \"0\" stands in the list already", `routes[1].outcome.field: "a..b" is not the name of a field`, "routes[1].outcome.ok: is empty"}},
		"fan-out":            {"routes: [{method: a.B/C, fan_out: {}}, {method: a.B/D, to: all, fallback: {response: '{}'}, outcome: {field: a}, canary: [{match: {a: b}}], max_attempts: 2, idempotent: true, idempotency_key: true}, {method: a.B/E, to: all, fan_out: {require: most, concurrency: 0}}]\n", []string{"6:26: routes[0].fan_out: does nothing without to: all", "routes[1].fallback: is for calls that go to one endpoint", "routes[1].outcome: is for", "routes[1].canary: is for", "routes[1].max_attempts: is for", "routes[1].idempotent: is for", "routes[1].idempotency_key: is for", "routes[2].fan_out.require", "routes[2].fan_out.concurrency: is too small"}},
		"canaries":           {"    canary: [{match: {}}, {match: {a: b}, value: x}, {match: {a: b}, header: X-A}, {match: {a: b}, header: token, percent: 101}]\n", []string{"6:14: backends[0].canary[0]: needs match", "backends[0].canary[1].value: does nothing without header", "backends[0].canary[2].header: \"X-A\" is not a metadata key", "backends[0].canary[3].header: \"token\" is not for rules", "backends[0].canary[3].percent: is too large"}},
		"route's service":    {"    services: [a.B]\nroutes: [{method: a.C/D, timeout: 1s, backend: shop}, {method: a.C/E, timeout: 1s}]\n", []string{"7:19: routes[0].method: its service is not among the services of backend \"shop\"", "7:64: routes[1].method: its service is among no backend's services"}},

		"a broken name is not missing too":  {"  - {name: [a], endpoints: [a:1], reflection: true}\n", []string{"6:12: backends[1].name: is a list, but text is wanted"}},
		"a misspelt key is not missing too": {"  - {nmae: a, endpoints: [a:1], reflection: true}\n", []string{`6:6: backends[1].nmae: unknown key; did you mean "name"?`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkFaults(t, faultsOf(t, minimal+test.text, "B", "x"), test.want)
		})
	}
}

func TestFaultsOfWholeFiles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"empty":           {"", []string{"1:1: backends: there is none"}},
		"only comments":   {"# nothing\n", []string{"backends: there is none"}},
		"a list":          {"- a\n", []string{"1:1: is a list, but a section with keys is wanted", "backends: there is none"}},
		"syntax":          {"a: 1\nb: [\n", []string{"2:1: not valid YAML: did not find expected node content"}},
		"unquoted braces": {"a: 1\n\nb: {get: /v1/{id}}\nc: 1\n", []string{"3:1: not valid YAML: did not find expected ',' or '}'; put values with { } in quotes"}},
		"braces, line 1":  {"b: {get: /v1/{id}}\n", []string{"1:1: not valid YAML: did not find expected ',' or '}'; put values with { } in quotes"}},
		"quoted braces":   {"a: 1\nb: {get: \"/v1/{id}\" x: 1}\n", []string{"2:1: not valid YAML: did not find expected ',' or '}'"}},
		"indentation":     {"a: 1\nb: 2\nc: 'x' y\n", []string{"3:1: not valid YAML: did not find expected key"}},
		"a scanner's":     {"a: 1\n\nb: c: d\n", []string{"3:1: not valid YAML: mapping values are not allowed in this context"}},
		"tab":             {"http:\n\taddress: x\n", []string{"2:1: not valid YAML: found character that cannot start any token"}},
		"unknown anchor":  {"a: 1\nb: *x\n", []string{`2:4: not valid YAML: the anchor "x" is not defined above`}},
		"two documents":   {minimal + "---\na: 1\n", []string{"6:1: a second YAML document"}},
		"not UTF-8":       {"a: 1\nb: \xff\n", []string{"2:4: not UTF-8"}},
		"NUL":             {"a: \x00\n", []string{"1:4: control character U+0000"}},
		"too large":       {strings.Repeat("#", 1<<20+1), []string{"1:1: the file is larger than 1MiB"}},
		"without redis":   {strings.Replace(minimal, "redis: {addresses: [127.0.0.1:6379]}", "redis: {mode: sentinel, addresses: []}", 1), []string{"1:1: redis: needs addresses", "1:1: redis: mode sentinel needs master_name"}},
		"redis single":    {strings.Replace(minimal, "[127.0.0.1:6379]", "[a:1, b:1], master_name: x, sentinel_password: s", 1), []string{"1:9: redis.addresses: mode single takes one address", "redis.master_name: is for mode sentinel only", "redis.sentinel_password: is for mode sentinel only"}},
		"redis cluster":   {strings.Replace(minimal, "[127.0.0.1:6379]", "[a:1, b:1], mode: cluster, db: 1", 1), []string{"redis.db: must be 0 in mode cluster"}},
		"both passwords":  {strings.Replace(minimal, "[127.0.0.1:6379]", "[a:1], password: x, password_file: load.go", 1), []string{"redis.password_file: both password and password_file are set"}},
		"no secret file":  {strings.Replace(minimal, "[127.0.0.1:6379]", "[a:1], password_file: none", 1), []string{`1:42: redis.password_file: "none": no such file or directory`}},
		"device":          {strings.Replace(minimal, "[127.0.0.1:6379]", "[a:1], password_file: /dev/zero", 1), []string{"is not a regular file"}},
		"folder":          {strings.Replace(minimal, "[127.0.0.1:6379]", "[a:1], password_file: .", 1), []string{"is a folder"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkFaults(t, faultsOf(t, test.text), test.want)
		})
	}
}

// A URL where an address should be is a common slip, and may hold a password.
func TestFaultsShowNoPasswords(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"redis://user:hunter2@h:1", "user:hunter2@h:1", "http://root:hunter2@h", "dns://user:hunter2@x/y z",
		"redis://:hunter2@h:1,redis://:hunter2@i:1", "a:hun@hunter2@h", "a:x//hunter2@h", "a:hunter2://b@h", "x y://hunter2@h",
		"redis://user:" + strings.Repeat("hunter2", 20) + "@h", "http://u:hunter2@h:1/x",
	} {
		elsewhere := value
		if !regexp.MustCompile(`^[a-z]+://`).MatchString(value) {
			elsewhere = "x" // an @ means something only in what should be an address, and in a URL
		}
		text := fmt.Sprintf(`redis: {addresses: [%[1]q, %[1]q], mode: %[2]q}
etcd: {endpoints: [%[1]q]}
register: {key: a, advertise: %[1]q}
http: {address: %[1]q, write_timeout: %[2]q, max_body_size: %[2]q}
grpc: {address: %[1]q}
backends:
  - {name: a, endpoints: [%[1]q], reflection: true}
  - {name: b, target: %[1]q, reflection: true}
`, value, elsewhere)
		faults := faultsOf(t, text)
		if len(faults) < 9 {
			t.Errorf("%s: only %d faults:\n%v", value, len(faults), faults)
		}
		if strings.Contains(faults.Error(), "hunter") {
			t.Errorf("%s: shown in\n%v", value, faults)
		}
	}
}

// checkFaults wants each fault once, in order of the file, and none besides.
func checkFaults(t *testing.T, got config.Faults, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d faults, want %d:\n%v", len(got), len(want), got)
	}
	for _, w := range want {
		found := false
		for _, f := range got {
			found = found || strings.Contains(f.Error(), w)
		}
		if !found {
			t.Errorf("no fault has %q in:\n%v", w, got)
		}
	}
	for i, f := range got {
		if f.File != "gateway.yaml" || f.Line < 1 || f.Column < 1 {
			t.Errorf("fault without a place: %#v", f)
		}
		if i > 0 && f.Line < got[i-1].Line {
			t.Errorf("faults are out of order:\n%v", got)
		}
	}
}

func TestAliasBombsAreBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("http: {trusted_proxies: &a0 [x]}\nroutes:\n")
	fmt.Fprintf(&b, "  - &b0 {get: /}\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&b, "  - &b%d {additional_bindings: [%s]}\n", i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*b%d, ", i-1), 10), ", "))
	}
	b.WriteString("  - {http: *b29}\n")
	if faults := faultsOf(t, b.String()); len(faults) > 201 {
		t.Errorf("%d faults", len(faults))
	}

	b.Reset()
	b.WriteString("http: &m0 {address: x}\ngrpc:\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&b, "  k%d: &m%d {<<: [%s]}\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*m%d, ", i-1), 10), ", "))
	}
	b.WriteString("admin: {<<: *m29}\n")
	faults := faultsOf(t, b.String())
	if !strings.Contains(faults.Error(), "the file's aliases make it too large") {
		t.Errorf("the merge bomb gives\n%v", faults)
	}

	b.Reset()
	for i := range 5000 {
		fmt.Fprintf(&b, "unknown%d: 1\n", i)
	}
	if faults := faultsOf(t, b.String()); len(faults) > 201 {
		t.Errorf("%d faults of a file that is no configuration", len(faults))
	}

	deep := "routes: [{http: " + strings.Repeat("{additional_bindings: [", 3000) + strings.Repeat("]}", 3000) + "}]\n"
	if faults := faultsOf(t, deep); !strings.Contains(faults.Error(), "values lie too deep in each other") {
		t.Errorf("the deep file gives\n%v", faults)
	}
}
