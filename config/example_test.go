package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const exampleFile = "../etc/gateway.yaml"

func TestExampleLoads(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(exampleFile, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Defaults()
	want.GRPC.Reflection = true
	want.Redis.Addresses = []string{"127.0.0.1:6379"}
	want.Etcd.Endpoints = []string{"127.0.0.1:2379"}
	shop := DefaultBackend("shop")
	shop.Etcd = &BackendEtcd{Key: "shop.rpc", Layout: "auto"}
	shop.Reflection = true
	shop.Balancer.Policy = "ring_hash"
	want.Backends = []Backend{shop}
	want.source = got.source
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the example differs from the defaults in more than it is meant to:\n got %+v\nwant %+v", got, want)
	}
	for _, w := range got.Warnings(testTime) {
		t.Errorf("warning: %v", w)
	}
}

func TestExampleInContainers(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"HTTP_ADDR": ":80", "GRPC_ADDR": ":90", "ADMIN_ADDR": ":91", "REDIS_ADDR": "redis:6379", "REDIS_PASSWORD": "a: b",
		"ETCD_ADDR": "etcd:2379", "SHOP_KEY": "other.rpc", "LOG_LEVEL": "debug", "LOG_FORMAT": "text",
	}
	c, err := Parse(exampleFile, text, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	got := []string{
		c.HTTP.Address, c.GRPC.Address, c.Admin.Address, c.Redis.Addresses[0], c.Redis.Password.Reveal(),
		c.Etcd.Endpoints[0], c.Backends[0].Etcd.Key, c.Log.Level, c.Log.Format,
	}
	if want := []string{":80", ":90", ":91", "redis:6379", "a: b", "etcd:2379", "other.rpc", "debug", "text"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// commentedKey is a line that is a setting but for its #: no blank follows it.
var commentedKey = regexp.MustCompile(`(?m)^( *)#([^ \n])`)

func TestExampleHasEveryKeyWithItsDefault(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	root, fault := parseDocument(commentedKey.ReplaceAll(text, []byte("$1$2")))
	if fault != nil {
		t.Fatalf("with every setting on: %v", fault)
	}
	d := &decoder{
		source: source{file: exampleFile, marks: map[string]mark{}},
		lookup: func(string) (string, bool) { return "", false }, broken: map[string]bool{},
	}
	c := Defaults()
	d.decode(reflect.ValueOf(c).Elem(), root, "")
	if len(d.faults) > 0 {
		t.Fatalf("with every setting on:\n%v", d.faults)
	}
	lines := strings.Split(string(text), "\n")
	walk(reflect.ValueOf(c).Elem(), "", func(f field, v reflect.Value, path string) {
		def, ok := f.Tag.Lookup("default")
		m, there := d.source.marks[path]
		if !ok || !there || !strings.HasPrefix(strings.TrimSpace(lines[m.line-1]), "#") {
			return
		}
		if list := f.list(); list != nil {
			if !slices.Contains(list, v.String()) {
				t.Errorf("%s:%d: %s is %v, but the defaults are %q", exampleFile, m.line, path, v, list)
			}
			return
		}
		if want, err := parseScalar(f.Type, def); err != nil || !want.Equal(v) {
			t.Errorf("%s:%d: %s is %v, but its default is %s", exampleFile, m.line, path, v, def)
		}
	})
	checkMentioned(t, root, reflect.TypeFor[Config](), "", nil)
}

// checkMentioned wants each key of a section, and of those in it, in the file.
func checkMentioned(t *testing.T, n *yaml.Node, section reflect.Type, path string, around []reflect.Type) {
	t.Helper()
	if slices.Contains(around, section) {
		return
	}
	for _, f := range fieldsOf(section) {
		key := keyPath(path, f.key)
		var value *yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == f.key {
				value = n.Content[i+1]
			}
		}
		if value == nil {
			t.Errorf("%s does not mention %s", exampleFile, key)
			continue
		}
		inner := f.Type
		if inner.Kind() == reflect.Slice && len(value.Content) > 0 {
			inner, value = inner.Elem(), value.Content[0]
		}
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			checkMentioned(t, value, inner, key, append(around, section))
		}
	}
}
