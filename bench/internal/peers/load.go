package peers

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// serveLoad serves fair.LoadService. Pages are written out once, so that they cost
// the backend little whatever they cost the gateway.
func serveLoad(lis net.Listener) error {
	var pages sync.Map // by the number of items
	page := func(items int) ([]byte, error) {
		if b, ok := pages.Load(items); ok {
			return b.([]byte), nil //nolint:forcetypeassert // nothing else is stored
		}
		b, err := proto.Marshal(Page(items))
		if err == nil {
			pages.Store(items, b)
		}
		return b, err
	}
	return grpc.NewServer(
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(stream)
			if !strings.HasPrefix(method, "/fair.LoadService/") {
				return fmt.Errorf("no method %s", method)
			}
			var request frame
			defer request.free()
			if err := stream.RecvMsg(&request); err != nil {
				return err
			}
			if method == "/fair.LoadService/PutPage" {
				return stream.SendMsg(frameOf(nil))
			}
			items, delay := readGetPage(request.data.Materialize())
			b, err := page(items)
			if err != nil {
				return err
			}
			if method == "/fair.LoadService/Watch" {
				if err := stream.SendMsg(frameOf(b)); err != nil {
					return err
				}
				return waitFor(stream, delay)
			}
			if err := waitFor(stream, delay); err != nil {
				return err
			}
			return stream.SendMsg(frameOf(b))
		}),
	).Serve(lis)
}

func waitFor(stream grpc.ServerStream, delay time.Duration) error {
	if delay <= 0 {
		return nil
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// readGetPage reads a fair.GetPageRequest. What makes no sense is zero.
func readGetPage(b []byte) (items int, delay time.Duration) {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 || kind != protowire.VarintType {
			return items, delay
		}
		value, m := protowire.ConsumeVarint(b[n:])
		if m < 0 {
			return items, delay
		}
		b = b[n+m:]
		switch field {
		case 1:
			items = int(value)
		case 2:
			delay = time.Duration(value) * time.Millisecond
		}
	}
	return items, delay
}
