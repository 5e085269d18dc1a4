package rpcproxy

import (
	"math/big"
	"strings"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// A wait is only ever what a number says that is not negative and within 32
// bits, and whatever a status has for details breaks nothing.
func FuzzPushback(f *testing.F) {
	for _, s := range []string{"0", "-1", "10", "+5", "1e3", "", " 1", "2147483647", "2147483648", "0x10", "1_0"} {
		f.Add(s, []byte{10, 2, 8, 1})
	}
	f.Fuzz(func(t *testing.T, text string, detail []byte) {
		p := parsePushback(metadata.MD{pushbackKey: {text}}, nil)
		n, ok := new(big.Int).SetString(text, 10)
		good := ok && n.Sign() >= 0 && n.BitLen() < 32 && !strings.Contains(text, "_")
		if p.stop == good || !p.said || good && p.wait != time.Duration(n.Int64())*time.Millisecond {
			t.Errorf("%q: %+v", text, p)
		}
		s := status.FromProto(&spb.Status{Details: []*anypb.Any{{TypeUrl: "type.googleapis.com/google.rpc.RetryInfo", Value: detail}}})
		if p := parsePushback(nil, s); !p.said || p.wait < 0 {
			t.Errorf("%x: %+v", detail, p)
		}
	})
}
