package peers

import (
	"context"
	"net"

	"google.golang.org/grpc"

	"github.com/rpcgate/rpcgate/bench/internal/catalogpb"
	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
)

// userService answers without a store, so that the backend costs the same at
// the end of a run as at its start.
type userService struct {
	shoppb.UnimplementedUserServiceServer
	name string
}

func (s *userService) GetUser(_ context.Context, r *shoppb.GetUserRequest) (*shoppb.User, error) {
	return &shoppb.User{Id: r.GetId(), Name: s.name}, nil
}

func (s *userService) CreateUser(_ context.Context, r *shoppb.CreateUserRequest) (*shoppb.User, error) {
	return &shoppb.User{Id: UserID, Name: r.GetName()}, nil
}

// catalogService has the larger messages, and a stream.
type catalogService struct {
	catalogpb.UnimplementedCatalogServiceServer
}

func (catalogService) EchoPage(_ context.Context, page *catalogpb.Page) (*catalogpb.Page, error) {
	return page, nil
}

func (catalogService) ListItems(r *catalogpb.ListItemsRequest, stream catalogpb.CatalogService_ListItemsServer) error {
	for i := range int(r.GetCount()) {
		if err := stream.Send(Item(i)); err != nil {
			return err
		}
	}
	return nil
}

func serveBackend(lis net.Listener) error {
	srv := grpc.NewServer()
	shoppb.RegisterUserServiceServer(srv, &userService{name: UserName()})
	catalogpb.RegisterCatalogServiceServer(srv, catalogService{})
	return srv.Serve(lis)
}
