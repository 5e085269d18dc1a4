package peers

import (
	"context"
	"net"

	"google.golang.org/grpc"

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

func serveBackend(lis net.Listener) error {
	srv := grpc.NewServer()
	shoppb.RegisterUserServiceServer(srv, &userService{name: UserName()})
	return srv.Serve(lis)
}
