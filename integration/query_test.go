package integration_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// Fault 4: what a query can set. Each is what the backend then sees.
func TestFault4Query(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for _, tc := range []struct{ name, query, want string }{
		{"nothing", "", `{}`},
		{"string", "text=a%20b+c", `{"text":"a b c"}`},
		{"lower camel case", "wrappedText=a", `{"wrappedText":"a"}`},
		{"proto name", "wrapped_text=a", `{"wrappedText":"a"}`},
		{"int32", "small=-5", `{"small":-5}`},
		{"int64 above 2^53", "number=9007199254740993", `{"number":"9007199254740993"}`},
		{"uint64 max", "positive=18446744073709551615", `{"positive":"18446744073709551615"}`},
		{"bool", "flag=true", `{"flag":true}`},
		{"double", "real=1.5e3", `{"real":1500}`},
		{"bytes, standard", "data=%2B%2F8%3D", `{"data":"+/8="}`},
		{"bytes, URL-safe", "data=-_8=", `{"data":"+/8="}`},
		{"enum by name", "colour=GREEN", `{"colour":"GREEN"}`},
		{"enum by number", "colour=1", `{"colour":"RED"}`},
		{"repeated", "texts=a&texts=b", `{"texts":["a","b"]}`},
		{"repeated numbers", "numbers=1&numbers=9007199254740993", `{"numbers":["1","9007199254740993"]}`},
		{"repeated enums", "colours=RED&colours=2", `{"colours":["RED","GREEN"]}`},
		{"nested", "sub.name=a&sub.size=3", `{"sub":{"name":"a","size":"3"}}`},
		{"nested twice", "sub.inner.inner.name=a", `{"sub":{"inner":{"inner":{"name":"a"}}}}`},
		{"map", "labels[k]=v&labels[l]=w", `{"labels":{"k":"v","l":"w"}}`},
		{"oneof", "left=a", `{"left":"a"}`},
		{"optional", "maybe=", `{"maybe":""}`},
		{"StringValue", "wrapped_text=plain", `{"wrappedText":"plain"}`},
		{"Int64Value", "wrapped_number=9007199254740993", `{"wrappedNumber":"9007199254740993"}`},
		{"BoolValue", "wrapped_flag=false", `{"wrappedFlag":false}`},
		{"BytesValue", "wrapped_data=AQI=", `{"wrappedData":"AQI="}`},
		{"Timestamp", "time=2024-02-29T12:00:00.5Z", `{"time":"2024-02-29T12:00:00.500Z"}`},
		{"Timestamp with an offset", "time=2024-02-29T12:00:00%2B02:00", `{"time":"2024-02-29T10:00:00Z"}`},
		{"Duration", "duration=1.5s", `{"duration":"1.500s"}`},
		{"FieldMask", "mask=sub.name,text", `{"mask":"sub.name,text"}`},
		{"unknown", "nothing=1", `{}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r.call(t, "GET", "/v1/echo?"+tc.query, "").ok(t, "")
			sawRequest(t, b, "Shapes", tc.want)
		})
	}
}

// A query that fits no field is the caller's fault, and the answer names it. An
// empty value may be taken as none or be refused.
func TestFault4BadQuery(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "json: {discard_unknown: false}", "")
	for _, tc := range []struct{ query, names string }{
		{"small=x", "small"},
		{"small=2147483648", "small"},
		{"number=9223372036854775808", "number"},
		{"positive=-1", "positive"},
		{"flag=perhaps", "flag"},
		{"real=one", "real"},
		{"data=!!", "data"},
		{"colour=BLUE", "colour"},
		{"colours=RED&colours=BLUE", "colours"},
		{"text=a&text=b", "text"},
		{"left=a&right=1", ""},
		{"sub=x", "sub"},
		{"sub.nothing=x", "nothing"},
		{"text.more=x", "text"},
		{"subs.name=x", "subs"},
		{"time=yesterday", "time"},
		{"duration=long", "duration"},
		{"nothing=1", "nothing"},
		{"text=%FF", "text"},
		{"text=%zz", ""},
		{strings.Repeat("sub.inner.", 200) + "name=x", ""},
	} {
		name := tc.query
		if len(name) > 30 {
			name = name[:30]
		}
		t.Run(name, func(t *testing.T) {
			a := r.call(t, "GET", "/v1/echo?"+tc.query, "")
			a.failed(t, 400, codes.InvalidArgument, "BAD_REQUEST")
			if !strings.Contains(a.Body, tc.names) {
				t.Errorf("the answer does not name %s: %s", tc.names, a.Body)
			}
			untouched(t, b)
		})
	}
	for _, query := range []string{"colours=", "colour=", "numbers=", "time=", "small="} {
		if a := r.call(t, "GET", "/v1/echo?"+query, ""); a.Status != 200 {
			a.failed(t, 400, codes.InvalidArgument, "BAD_REQUEST")
		}
	}
}
