package balancer

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// How health is watched when the endpoint does not answer as it should. The
// backoff is that of gRPC's own health client (gRPC connection backoff).
const (
	// answerTimeout is how long an endpoint may take to say how it is; it is to say
	// so at once.
	answerTimeout = 10 * time.Second
	// keepHealth is how long what an endpoint last said holds when it cannot be
	// asked any more.
	keepHealth   = 10 * time.Second
	firstPause   = time.Second
	longestPause = 2 * time.Minute
	pauseGrowth  = 1.6
	pauseJitter  = 0.2
)

// joinHealthWatch has an endpoint's health watched over a connection to it that
// is ready, whenever no other connection does that already. Leave the turn when
// the connection is ready no more.
func joinHealthWatch(e *fleet.Endpoint, service string, conn balancer.SubConn) *fleet.Turn {
	return e.HealthTurns().Join(func() func() {
		_, end := conn.GetOrBuildProducer(healthWatch{endpoint: e, service: service})
		return end
	})
}

// healthWatch is a balancer.ProducerBuilder of one watch, by grpc.health.v1, of
// an endpoint's health. The watch is bound to one connection, and is no call of
// the ClientConn's: it keeps none from being taken for idle.
type healthWatch struct {
	endpoint *fleet.Endpoint
	service  string
}

// Build implements balancer.ProducerBuilder. The watch ends by itself where the
// endpoint does not offer it.
func (w healthWatch) Build(conn any) (_ balancer.Producer, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(ctx, grpc_health_v1.NewHealthClient(conn.(grpc.ClientConnInterface)))
	}()
	return nil, func() {
		cancel()
		<-ended
	}
}

func (w healthWatch) run(ctx context.Context, client grpc_health_v1.HealthClient) {
	// What another connection heard before holds for a while.
	lastHeard := time.Now()
	for pause := firstPause; ; pause = min(longestPause, time.Duration(float64(pause)*pauseGrowth)) {
		heard, err := w.listen(ctx, client)
		if ctx.Err() != nil {
			return
		}
		if !isOffered(err) {
			w.endpoint.SetHealth(fleet.Unknown)
			return
		}
		if heard {
			lastHeard, pause = time.Now(), firstPause
		}
		if !w.pause(ctx, jittered(pause), lastHeard.Add(keepHealth)) {
			return
		}
	}
}

// pause waits, and has what the endpoint said forgotten in time. It returns
// false when ctx is done.
func (w healthWatch) pause(ctx context.Context, length time.Duration, forget time.Time) bool {
	again, old := time.NewTimer(length), time.NewTimer(time.Until(forget))
	defer again.Stop()
	defer old.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-again.C:
			return true
		case <-old.C:
			w.endpoint.SetHealth(fleet.Unknown)
		}
	}
}

// listen takes in what the endpoint says until that ends, and whether it said
// anything.
func (w healthWatch) listen(ctx context.Context, client grpc_health_v1.HealthClient) (heard bool, _ error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(answerTimeout, cancel)
	defer late.Stop()
	stream, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: w.service})
	if err != nil {
		return false, err
	}
	for {
		answer, err := stream.Recv()
		if err != nil {
			return heard, err
		}
		late.Stop()
		heard = true
		w.endpoint.SetHealth(w.healthOf(answer.GetStatus()))
	}
}

// healthOf is what an answer means.
func (w healthWatch) healthOf(s grpc_health_v1.HealthCheckResponse_ServingStatus) fleet.Health {
	switch {
	case s == grpc_health_v1.HealthCheckResponse_SERVING:
		return fleet.Serving
	case s == grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN && w.service == "":
		// It has health by service, and none of the server as a whole.
		return fleet.Unknown
	default:
		return fleet.NotServing
	}
}

// isOffered tells by a watch's end whether asking again makes sense on this
// connection. The watch carries nobody's credential, so that a server that wants
// one from everybody refuses it.
func isOffered(err error) bool {
	switch status.Code(err) {
	case codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied:
		return false
	default:
		return true
	}
}

func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 + pauseJitter*(2*rand.Float64()-1))) //nolint:gosec // spreads load, guards nothing
}
