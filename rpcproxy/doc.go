// Package rpcproxy owns the way out of the gateway: it carries one call at a
// time, as bytes, from an [Exchange] (the caller's side) to a backend and
// back.
//
// A [Backend] is one configured upstream. It holds the [Pool] of client
// connections, one per credential, the fleet of endpoints that all of them know,
// and the chain that every call runs through: breaker, deadline, and attempts,
// of which there is more than one where the first fails or takes long and the
// call may be repeated. Messages are never decoded: [RawCodec] hands grpc-go the
// very buffers that came in.
//
// It promises:
//   - a connection never carries another credential than the one it was made
//     for;
//   - evicting, expiring or revoking a connection breaks no call in flight;
//   - a call of which anything may have reached the backend's application is
//     made again only if its [Request] says that it may be, and none is whose
//     answer has begun;
//   - a deadline never grows, and the caller's cancellation reaches the
//     backend;
//   - headers, trailers and the status of the backend reach the exchange
//     untouched, and an error tells who made it: the backend ([StatusError]),
//     the way to it ([UnreachableError], [TimeoutError], [LocalError]), the
//     breaker ([BreakerOpenError]) or the exchange itself ([ExchangeError]).
package rpcproxy
