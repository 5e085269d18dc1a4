package gateway

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

func TestWeighted(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"":                                      "",
		"gzip":                                  "gzip 1000",
		"A/B;x=1;q=0.5 , c/d":                   "a/b 500,c/d 1000",
		"a/b ; Q=0.25":                          "a/b 250",
		`a/b;x="1,2;q=0";q=0.1, c/d`:            "a/b 100,c/d 1000",
		`a/b;x="\",";q=0.1`:                     "a/b 100",
		"a;q=0":                                 "a 0",
		"a;q=0.001":                             "a 1",
		"a;q=1.000":                             "a 1000",
		"a;q=1.001,b;q=2,c;q=,d;q=.5,e;q=0.12x": "",
		"a;q=0.1234, b;q=-1, c;q=1.":            "c 1000",
		",, a,":                                 "a 1000",
	} {
		var got []string
		for name, weight := range weighted([]string{header}) {
			got = append(got, name+" "+strconv.Itoa(weight))
		}
		if text := strings.Join(got, ","); text != want {
			t.Errorf("%q: %q, want %q", header, text, want)
		}
	}
}

func TestAcceptedStream(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]streamForm{
		"":                                    streamLines,
		"*/*":                                 streamLines,
		"application/json":                    streamArray,
		"application/json, text/plain, */*":   streamArray,
		"application/json, text/event-stream": streamEvents,
		"text/event-stream;q=0.9, application/json": streamArray,
		"application/*":                 streamLines,
		"text/*":                        streamEvents,
		"application/json;q=0, */*":     streamLines,
		"application/x-ndjson;q=0, */*": streamEvents,
		"image/png":                     streamLines,
	} {
		if got := acceptedStream([]string{accept}); got != want {
			t.Errorf("%q: %d, want %d", accept, got, want)
		}
	}
	if got := acceptedStream([]string{"text/html", "application/json"}); got != streamArray {
		t.Errorf("two lines: %d", got)
	}
}

func TestAcceptedEncoding(t *testing.T) {
	t.Parallel()
	all := wire.NewCompressors(0)
	offers := []*wire.Compression{all.Find(wire.Zstd), all.Find(wire.Gzip)}
	for accept, want := range map[string]string{
		"": "", "gzip": "gzip", "gzip, zstd": "zstd", "zstd;q=0.5, gzip": "gzip", "*": "zstd", "zstd;q=0, *": "gzip", "x-gzip": "gzip",
		"*;q=0": "", "identity": "", "identity, gzip": "gzip", "identity;q=1, gzip;q=0.5": "", "identity;q=0": "", "br": "",
	} {
		got := ""
		if c := acceptedEncoding([]string{accept}, offers); c != nil {
			got = c.Name()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", accept, got, want)
		}
	}
}

// FuzzWeighted: for headers without quotes, a grammar written as a regular
// expression is the oracle; for any, the weights are in range.
func FuzzWeighted(f *testing.F) {
	for _, seed := range []string{"", "gzip;q=0.5, *", `a/b;x="1,2";q=0.1`, "a;q=1.000,b;q=0.999;x=1", "a;q", `"`, `\`, ";;q=1", "a; q = 1"} {
		f.Add(seed)
	}
	weight := regexp.MustCompile(`^(0(\.[0-9]{0,3})?|1(\.0{0,3})?)$`)
	f.Fuzz(func(t *testing.T, header string) {
		var got []string
		for name, q := range weighted([]string{header}) {
			if name == "" || q < 0 || q > 1000 {
				t.Fatalf("%q has weight %d", name, q)
			}
			got = append(got, name+" "+strconv.Itoa(q))
		}
		if strings.ContainsAny(header, `"`) {
			return
		}
		var want []string
	elements:
		for element := range strings.SplitSeq(header, ",") {
			parts := strings.Split(element, ";")
			name := strings.ToLower(strings.TrimSpace(parts[0]))
			if name == "" {
				continue
			}
			q := 1000.0
			for _, p := range parts[1:] {
				key, value, _ := strings.Cut(strings.TrimSpace(p), "=")
				if !strings.EqualFold(key, "q") {
					continue
				}
				if !weight.MatchString(value) {
					continue elements
				}
				parsed, err := strconv.ParseFloat(value, 64)
				if err != nil {
					t.Fatal(err)
				}
				q = parsed * 1000
				break
			}
			want = append(want, name+" "+strconv.Itoa(int(q+0.5)))
		}
		if strings.Join(got, ",") != strings.Join(want, ",") {
			t.Fatalf("%q: %q, want %q", header, got, want)
		}
	})
}
