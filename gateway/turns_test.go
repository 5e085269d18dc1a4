package gateway

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/limits"
)

// While processors are short an app's calls wait for each other, and another's for
// none of them; when there are some to spare, nothing waits.
func TestCallsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := sheddingGateway(1000)
		s := g.shedder
		defer s.turns.close()
		var mu sync.Mutex
		served := map[string]int{}
		h := g.pipeline(testRoute(), func(_ context.Context, c *Call) error {
			mu.Lock()
			defer mu.Unlock()
			served[c.Principal.App]++
			return nil
		})
		s.turns.limits.Observe(time.Second)
		flooder := s.tenantOf("flooder")
		var busy []*limits.Turn
		for range cap(s.turns.idles) { // all processors
			turn := new(limits.Turn)
			if !s.turns.limits.Take(turn, flooder, limits.RankAnswer, time.Second) {
				turn = nil
			}
			busy = append(busy, turn)
		}
		ctx, giveUp := context.WithCancel(t.Context())
		ended := make(chan error, 20)
		for i := range 20 {
			ctx := ctx
			if i >= 5 {
				ctx = t.Context()
			}
			go func() { ended <- h(ctx, callOf(testRoute(), "flooder")) }()
		}
		synctest.Wait()
		if served["flooder"] > 0 {
			t.Errorf("%d of the flooder's calls went on", served["flooder"])
		}
		if err := h(t.Context(), callOf(testRoute(), "good")); err != nil || served["good"] != 1 {
			t.Errorf("the other app's call: %v", err)
		}
		giveUp() // its callers are gone
		synctest.Wait()
		if len(ended) != 5 {
			t.Errorf("%d calls ended when 5 callers had gone", len(ended))
		}
		for _, turn := range busy {
			if turn != nil {
				s.turns.limits.Give(turn)
			}
		}
		for range 20 {
			<-ended
		}
		if served["flooder"] != 15 || g.Overload().InFlight != 0 {
			t.Errorf("%d are served, and %d still in flight", served["flooder"], g.Overload().InFlight)
		}
	})
}

// tenantOf is an app's Tenant.
func (s *shedder) tenantOf(app string) limits.Tenant {
	var k limits.Ticket
	_ = s.overload.Enter(&k, limits.Normal)
	_ = k.Verify(limits.App{ID: app})
	defer k.Leave()
	return k.Tenant()
}

// A flood of made-up credentials waits for its turns, too.
func TestStrangersTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := sheddingGateway(1000)
		s := g.shedder
		defer s.turns.close()
		s.turns.limits.Observe(time.Second)
		var busy []*limits.Turn
		for range cap(s.turns.idles) {
			turn := new(limits.Turn)
			_ = s.turns.limits.Take(turn, s.overload.Stranger(), limits.RankAnswer, time.Second)
			busy = append(busy, turn)
		}
		h := g.pipeline(testRoute(), func(context.Context, *Call) error { return nil })
		ended := make(chan error, 1)
		go func() {
			c := callOf(testRoute(), "acme")
			c.Credential = auth.Credential{App: "acme", Token: "wrong"}
			ended <- h(t.Context(), c)
		}()
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("a refusal does not wait")
		}
		if err := h(t.Context(), callOf(testRoute(), "acme")); err != nil {
			t.Errorf("the app in whose name it came: %v", err)
		}
		for _, turn := range busy {
			s.turns.limits.Give(turn)
		}
		if f := describe(<-ended); f == nil || f.Reason != "TOKEN_INVALID" {
			t.Errorf("got %+v", f)
		}
	})
}

// However many calls are refused while processors are short, those that wait to be
// told are bounded.
func TestRefusalsThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := sheddingGateway(1)
		s := g.shedder
		defer s.turns.close()
		s.turns.limits.Observe(time.Second)
		tenant := s.tenantOf("acme")
		busy := make([]limits.Turn, cap(s.turns.idles))
		for i := range busy {
			_ = s.turns.limits.Take(&busy[i], tenant, limits.RankAnswer, time.Second)
		}
		var ended atomic.Int64
		var refused sync.WaitGroup
		for range maxRefusing + 100 {
			refused.Go(func() {
				if err := s.turns.refuse(t.Context(), tenant); err != nil {
					t.Error(err)
				}
				ended.Add(1)
			})
		}
		synctest.Wait()
		if n := ended.Load(); n != 100 {
			t.Errorf("%d are refused at once, want 100", n)
		}
		for i := range busy {
			s.turns.limits.Give(&busy[i])
		}
		refused.Wait()
		if n := s.turns.refusing.Load(); n != 0 {
			t.Errorf("%d are still counted", n)
		}
	})
}

// A connection that was closed, or whose time was up, before it is read from does
// not pause: whoever ends the reading waits for it.
func TestEndedConnectionsDoNotPause(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*callerConn){
		"closed":        func(c *callerConn) { _ = c.Close() },
		"read deadline": func(c *callerConn) { _ = c.SetReadDeadline(time.Unix(1, 0)) },
		"deadline":      func(c *callerConn) { _ = c.SetDeadline(time.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g, _ := sheddingGateway(1000)
				s := g.shedder
				s.turns.limits.Observe(time.Second)
				tenant := s.tenantOf("flooder")
				ours, theirs := net.Pipe()
				defer theirs.Close()
				c := &callerConn{Conn: ours, turns: s.turns}
				defer c.Close()
				c.belongsTo(tenant)
				for range 200 {
					_ = s.turns.limits.Take(new(limits.Turn), tenant, limits.RankRefusal, time.Second)
				}
				end(c)
				read := make(chan error, 1)
				go func() {
					_, err := c.Read(make([]byte, 1))
					read <- err
				}()
				synctest.Wait()
				select {
				case err := <-read:
					if err == nil {
						t.Error("it was read")
					}
				default:
					t.Error("it pauses")
					_ = c.Close()
					<-read
				}
			})
		})
	}
}

// A connection is not read while enough of its app's calls wait; it is once they do
// not, or it is closed, or its limit in time changes. One that several apps use is
// read as it comes.
func TestConnectionsPause(t *testing.T) {
	t.Parallel()
	for name, wake := range map[string]func(s *shedder, c *callerConn, waiting []*limits.Turn){
		"closed": func(_ *shedder, c *callerConn, _ []*limits.Turn) { _ = c.Close() },
		"limit":  func(_ *shedder, c *callerConn, _ []*limits.Turn) { _ = c.SetReadDeadline(time.Now()) },
		"room": func(s *shedder, _ *callerConn, waiting []*limits.Turn) {
			for _, turn := range waiting {
				s.turns.limits.Give(turn)
			}
		},
		"shared": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g, _ := sheddingGateway(1000)
				s := g.shedder
				s.turns.limits.Observe(time.Second)
				tenant := s.tenantOf("flooder")
				ours, theirs := net.Pipe()
				defer theirs.Close()
				c := &callerConn{Conn: ours, turns: s.turns}
				c.belongsTo(tenant)
				c.belongsTo(tenant)
				if wake == nil {
					c.belongsTo(s.tenantOf("other"))
				}
				var waiting []*limits.Turn
				for range 200 {
					turn := new(limits.Turn)
					_ = s.turns.limits.Take(turn, tenant, limits.RankRefusal, time.Second)
					waiting = append(waiting, turn)
				}
				go func() { _, _ = theirs.Write([]byte("x")) }()
				read := make(chan struct{})
				go func() {
					defer close(read)
					_, _ = c.Read(make([]byte, 1))
				}()
				synctest.Wait()
				select {
				case <-read:
					if wake != nil {
						t.Error("it is read, though enough waits")
					}
				default:
					if wake == nil {
						t.Fatal("it is not read, though other apps use it, too")
					}
					wake(s, c, waiting)
				}
				<-read
				_ = c.Close()
			})
		})
	}
}
