package peers

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/rpcgate/rpcgate/bench/internal/catalogpb"
	cataloggw "github.com/rpcgate/rpcgate/bench/internal/catalogpb/gw"
	gw "github.com/rpcgate/rpcgate/bench/internal/shoppb"
	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
)

// serveJSONFloor serves the floor for JSON: what HTTP in and gRPC out cost
// together before anyone has looked at a message. The request's body is read
// and thrown away, ready-made bytes are sent in its place, and the answer's
// bytes go back as they are, about as many as the JSON would be.
func serveJSONFloor(lis net.Listener, conn *grpc.ClientConn) error {
	get, err := proto.Marshal(&shoppb.GetUserRequest{Id: UserID})
	if err != nil {
		return err
	}
	create, err := proto.Marshal(&shoppb.CreateUserRequest{Name: UserName()})
	if err != nil {
		return err
	}
	medium, err := proto.Marshal(Page(MediumItems))
	if err != nil {
		return err
	}
	large, err := proto.Marshal(Page(LargeItems))
	if err != nil {
		return err
	}
	codec := grpc.ForceCodecV2(rawCodec{})
	return serveHTTP(lis, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method, request := shoppb.UserService_GetUser_FullMethodName, get
		if r.Method == http.MethodPost {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			switch {
			case r.URL.Path == "/v1/users":
				method, request = shoppb.UserService_CreateUser_FullMethodName, create
			case r.ContentLength > int64(len(large)):
				method, request = catalogpb.CatalogService_EchoPage_FullMethodName, large
			default:
				method, request = catalogpb.CatalogService_EchoPage_FullMethodName, medium
			}
		}
		var answer frame
		defer answer.free()
		if err := conn.Invoke(r.Context(), method, frameOf(request), &answer, codec); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		for _, b := range answer.data {
			if _, err := w.Write(b.ReadOnlyData()); err != nil {
				return
			}
		}
	}))
}

// serveGRPCGateway serves the shop and the catalog through generated grpc-gateway code, as its
// README sets it up.
func serveGRPCGateway(lis net.Listener, conn *grpc.ClientConn) error {
	mux := runtime.NewServeMux()
	if err := gw.RegisterUserServiceHandlerClient(context.Background(), mux, shoppb.NewUserServiceClient(conn)); err != nil {
		return err
	}
	if err := cataloggw.RegisterCatalogServiceHandlerClient(context.Background(), mux, catalogpb.NewCatalogServiceClient(conn)); err != nil {
		return err
	}
	return serveHTTP(lis, mux)
}

func serveHTTP(lis net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	return srv.Serve(lis)
}
