package shopserver

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
)

// maxItems and maxBytes bound each of the two kinds of things in memory; the
// oldest make room.
const (
	maxItems = 1 << 16
	maxBytes = 64 << 20
)

// Service implements shop.UserService and shop.OrderService over one store.
type Service struct {
	users  userService
	orders orderService
	store  *store

	closing   chan struct{}
	closeOnce sync.Once
}

type userService struct {
	shoppb.UnimplementedUserServiceServer
	*Service
}

type orderService struct {
	shoppb.UnimplementedOrderServiceServer
	*Service
}

// New returns an empty shop.
func New() *Service {
	s := &Service{store: newStore(maxItems, maxBytes), closing: make(chan struct{})}
	s.users.Service = s
	s.orders.Service = s
	return s
}

// Register adds both services to a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	shoppb.RegisterUserServiceServer(r, s.users)
	shoppb.RegisterOrderServiceServer(r, s.orders)
}

// Close ends all watches with UNAVAILABLE, so that a graceful stop need not
// wait for their callers to leave.
func (s *Service) Close() { s.closeOnce.Do(func() { close(s.closing) }) }

func (s userService) CreateUser(_ context.Context, r *shoppb.CreateUserRequest) (*shoppb.User, error) {
	if r.GetName() == "" {
		return nil, missing("name")
	}
	return s.store.addUser(r.GetName()), nil
}

func (s userService) GetUser(_ context.Context, r *shoppb.GetUserRequest) (*shoppb.User, error) {
	if r.GetId() == 0 {
		return nil, missing("id")
	}
	u, ok := s.store.user(r.GetId())
	if !ok {
		return nil, notFound("user", r.GetId())
	}
	return u, nil
}

func (s orderService) CreateOrder(_ context.Context, r *shoppb.CreateOrderRequest) (*shoppb.Order, error) {
	switch {
	case r.GetUserId() == 0:
		return nil, missing("user_id")
	case r.GetProduct() == "":
		return nil, missing("product")
	}
	o, ok := s.store.addOrder(r.GetUserId(), r.GetProduct())
	if !ok {
		return nil, notFound("user", r.GetUserId())
	}
	return o, nil
}

func (s orderService) GetOrder(_ context.Context, r *shoppb.GetOrderRequest) (*shoppb.Order, error) {
	if r.GetId() == 0 {
		return nil, missing("id")
	}
	o, ok := s.store.order(r.GetId())
	if !ok {
		return nil, notFound("order", r.GetId())
	}
	return o, nil
}

func (s orderService) WatchOrders(r *shoppb.WatchOrdersRequest, stream grpc.ServerStreamingServer[shoppb.Order]) error {
	if r.GetUserId() == 0 {
		return missing("user_id")
	}
	if _, ok := s.store.user(r.GetUserId()); !ok {
		return notFound("user", r.GetUserId())
	}
	// The header tells the caller that the watch is on, before there is any order.
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	ctx := stream.Context()
	for from := int64(0); ; {
		p := s.store.ordersFrom(r.GetUserId(), from)
		if p.missed {
			return status.Error(codes.Aborted, "orders were made faster than they were read; watch again")
		}
		for _, o := range p.orders {
			if err := stream.Send(o); err != nil {
				return err
			}
		}
		from = p.next
		select {
		case <-p.changed:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-s.closing:
			return status.Error(codes.Unavailable, "the shop is closing; watch again")
		}
	}
}

func missing(field string) error {
	return withDetails(status.Newf(codes.InvalidArgument, "%s must be set", field),
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: field, Description: "must be set"},
		}})
}

func notFound(kind string, id int64) error {
	return withDetails(status.Newf(codes.NotFound, "%s %d not found", kind, id),
		&errdetails.ResourceInfo{ResourceType: "shop." + kind, ResourceName: strconv.FormatInt(id, 10)})
}

func withDetails(s *status.Status, detail protoadapt.MessageV1) error {
	detailed, err := s.WithDetails(detail)
	if err != nil { // only for a message that cannot be encoded, or the OK status
		return fmt.Errorf("attaching details to %q: %w", s.Message(), err)
	}
	return detailed.Err()
}
