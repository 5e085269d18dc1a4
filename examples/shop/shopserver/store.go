package shopserver

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
)

// store holds the newest users and orders in memory. Its messages are never
// changed once they are in, so they are handed out without copying.
type store struct {
	mu      sync.Mutex
	users   *window[*shoppb.User]
	orders  *window[*shoppb.Order]
	changed chan struct{} // closed, and replaced, when an order is added
}

func newStore(maxItems, maxBytes int) *store {
	return &store{
		users:   newWindow(maxItems, maxBytes, func(u *shoppb.User) int { return proto.Size(u) }),
		orders:  newWindow(maxItems, maxBytes, func(o *shoppb.Order) int { return proto.Size(o) }),
		changed: make(chan struct{}),
	}
}

func (s *store) addUser(name string) *shoppb.User {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &shoppb.User{Id: s.users.next, Name: name}
	s.users.add(u)
	return u
}

func (s *store) user(id int64) (*shoppb.User, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users.get(id)
}

// addOrder reports false when there is no such user.
func (s *store) addOrder(userID int64, product string) (*shoppb.Order, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.users.get(userID); !ok {
		return nil, false
	}
	o := &shoppb.Order{Id: s.orders.next, UserId: userID, Product: product}
	s.orders.add(o)
	close(s.changed)
	s.changed = make(chan struct{})
	return o, true
}

func (s *store) order(id int64) (*shoppb.Order, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orders.get(id)
}

// page is what a watcher sees when it looks: the orders it has not seen yet.
type page struct {
	orders  []*shoppb.Order
	next    int64           // the first id not looked at
	missed  bool            // orders were dropped before the watcher got to them
	changed <-chan struct{} // closed when there is more
}

// ordersFrom returns the user's orders with ids from on; 0 means all there are.
func (s *store) ordersFrom(userID, from int64) page {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := page{
		next:    s.orders.next,
		missed:  from != 0 && from < s.orders.first,
		changed: s.changed,
	}
	for id := max(from, s.orders.first); id < s.orders.next; id++ {
		if o, _ := s.orders.get(id); o.GetUserId() == userID {
			p.orders = append(p.orders, o)
		}
	}
	return p
}
