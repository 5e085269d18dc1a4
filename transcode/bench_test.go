package transcode_test

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rpcgate/rpcgate/transcode"
	"github.com/rpcgate/rpcgate/transcode/internal/orderpb"
)

// The same work done by rpcgate, by protojson with generated types (what
// generated gateways do), by protojson with dynamicpb (what gateways that read
// descriptors do), and by encoding/json alone on a struct of the same shape,
// which does not even touch protobuf.

// benchOrders are messages of about 150 bytes, 4 KB and 100 KB as JSON.
func benchOrders() []benchOrder {
	return []benchOrder{
		{"small", &orderpb.Order{
			Id: 12345, Customer: "Mary Major", Total: 119.98, Status: orderpb.Order_STATUS_OPEN, Paid: true,
			Created: timestamppb.New(time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)),
		}},
		{"medium", makeOrder(20)},
		{"large", makeOrder(600)},
	}
}

type benchOrder struct {
	name string
	msg  *orderpb.Order
}

func makeOrder(items int) *orderpb.Order {
	o := &orderpb.Order{
		Id: 12345, Customer: "Mary Major", Note: "Please ring twice; the \"blue\" door.\nThank you!",
		Labels: map[string]string{"channel": "web", "campaign": "spring-2026", "region": "eu-central"},
		Total:  1234.5, Status: orderpb.Order_STATUS_SHIPPED, Paid: true,
		ShipTo:  &orderpb.Order_Address{Street: "Bahnhofstraße 1", City: "Zürich", Zip: "8001", Country: "CH"},
		Created: timestamppb.New(time.Date(2026, 3, 14, 15, 9, 26, 535_000_000, time.UTC)),
	}
	for i := range items {
		o.Items = append(o.Items, &orderpb.Order_Item{
			Sku: fmt.Sprintf("SKU-%06d", i*7919), Quantity: int32(i%9 + 1), Price: 19.99 + float64(i),
			Description: "A sturdy thing that does what it says, in colour number " + fmt.Sprint(i),
			Tags:        []string{"new", "in stock", "category-" + fmt.Sprint(i%17)},
		})
	}
	return o
}

// plainOrder is the shape of an Order for encoding/json.
type plainOrder struct {
	ID       int64             `json:"id,string"`
	Customer string            `json:"customer"`
	Note     string            `json:"note"`
	Items    []plainItem       `json:"items"`
	Labels   map[string]string `json:"labels"`
	Total    float64           `json:"total"`
	Status   string            `json:"status"`
	ShipTo   *plainAddress     `json:"shipTo"`
	Paid     bool              `json:"paid"`
	Created  time.Time         `json:"created"`
}

type plainItem struct {
	SKU         string   `json:"sku"`
	Quantity    int32    `json:"quantity"`
	Price       float64  `json:"price"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
}

type plainAddress struct {
	Street  string `json:"street"`
	City    string `json:"city"`
	Zip     string `json:"zip"`
	Country string `json:"country"`
}

// selfMethod is a method that takes and gives one message type.
type selfMethod struct {
	protoreflect.MethodDescriptor
	md protoreflect.MessageDescriptor
}

func (m selfMethod) Input() protoreflect.MessageDescriptor  { return m.md }
func (m selfMethod) Output() protoreflect.MessageDescriptor { return m.md }
func (m selfMethod) FullName() protoreflect.FullName        { return "bench.Service.Echo" }

func compileSelf(tb testing.TB, md protoreflect.MessageDescriptor, b transcode.Binding) *transcode.Method {
	tb.Helper()
	m, err := transcode.Compile(selfMethod{md: md}, b, defaults, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// measure runs one way of doing the work on size bytes. Beside the time on the
// clock it reports that of the processor, the collector's share included, which
// other work on the machine disturbs less.
func measure(b *testing.B, name string, size int, work func() error) {
	b.Run(name, func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		before := cpuTime(b)
		for b.Loop() {
			if err := work(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
	})
}

// cpuTime is what the process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkRequest(b *testing.B) {
	for _, order := range benchOrders() {
		md := order.msg.ProtoReflect().Descriptor()
		m := compileSelf(b, md, transcode.Binding{Body: "*"})
		body, err := compileSelf(b, md, transcode.Binding{}).AppendResponse(nil, marshal(b, order.msg))
		if err != nil {
			b.Fatal(err)
		}
		var buf []byte
		measure(b, order.name+"/rpcgate", len(body), func() (err error) {
			buf, err = m.AppendRequest(buf[:0], transcode.Input{Body: body})
			return err
		})
		through := func(msg proto.Message) (err error) {
			if err := protojson.Unmarshal(body, msg); err != nil {
				return err
			}
			buf, err = proto.MarshalOptions{}.MarshalAppend(buf[:0], msg)
			return err
		}
		measure(b, order.name+"/generated", len(body), func() error { return through(new(orderpb.Order)) })
		measure(b, order.name+"/dynamicpb", len(body), func() error { return through(dynamicpb.NewMessage(md)) })
		measure(b, order.name+"/encoding-json", len(body), func() error { return json.Unmarshal(body, new(plainOrder)) })
	}
}

func BenchmarkResponse(b *testing.B) {
	for _, order := range benchOrders() {
		md := order.msg.ProtoReflect().Descriptor()
		m := compileSelf(b, md, transcode.Binding{})
		wire := marshal(b, order.msg)
		body, err := m.AppendResponse(nil, wire)
		if err != nil {
			b.Fatal(err)
		}
		var buf []byte
		measure(b, order.name+"/rpcgate", len(body), func() (err error) {
			buf, err = m.AppendResponse(buf[:0], wire)
			return err
		})
		through := func(msg proto.Message) (err error) {
			if err := proto.Unmarshal(wire, msg); err != nil {
				return err
			}
			buf, err = protojson.MarshalOptions{EmitUnpopulated: true}.MarshalAppend(buf[:0], msg)
			return err
		}
		measure(b, order.name+"/generated", len(body), func() error { return through(new(orderpb.Order)) })
		measure(b, order.name+"/dynamicpb", len(body), func() error { return through(dynamicpb.NewMessage(md)) })
		var plain plainOrder
		if err := json.Unmarshal(body, &plain); err != nil {
			b.Fatal(err)
		}
		measure(b, order.name+"/encoding-json", len(body), func() error {
			_, err := json.Marshal(&plain)
			return err
		})
	}
}

func marshal(tb testing.TB, msg proto.Message) []byte {
	tb.Helper()
	wire, err := proto.Marshal(msg)
	if err != nil {
		tb.Fatal(err)
	}
	return wire
}

// TestAllocations: a body and a response take no memory per field, beside what they are appended to.
func TestAllocations(t *testing.T) {
	for _, order := range benchOrders() {
		md := order.msg.ProtoReflect().Descriptor()
		in, out := compileSelf(t, md, transcode.Binding{Body: "*"}), compileSelf(t, md, transcode.Binding{})
		wire := marshal(t, order.msg)
		body, err := out.AppendResponse(nil, wire)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 0, 2*len(body))
		if n := leastAllocs(func() { _, err = out.AppendResponse(buf, wire) }); n > 0 || err != nil {
			t.Errorf("%s response: %v allocations, err = %v", order.name, n, err)
		}
		if n := leastAllocs(func() { _, err = in.AppendRequest(buf, transcode.Input{Body: body}) }); n > 0 || err != nil {
			t.Errorf("%s request: %v allocations, err = %v", order.name, n, err)
		}
	}
}

// BenchmarkParameters: a GET with a path variable and a query, no body.
func BenchmarkParameters(b *testing.B) {
	m := compile(b, "everything.Service.EchoOrder", transcode.Binding{Vars: []string{"id"}}, defaults)
	in := transcode.Input{Query: "customer=acme&status=OPEN&ship_to.city=Bern&labels[a]=b&paid=true", Vars: []string{"12345"}}
	for _, bb := range []struct {
		name string
		in   transcode.Input
	}{{"path", transcode.Input{Vars: in.Vars}}, {"path and query", in}} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			var buf []byte
			var err error
			for b.Loop() {
				if buf, err = m.AppendRequest(buf[:0], bb.in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
