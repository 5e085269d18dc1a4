// Package rpcproxy owns the way out of the gateway: it carries one call at a
// time, as bytes, from an [Exchange] (the caller's side) to a backend and
// back.
//
// A [Backend] is one configured upstream. It holds the [Pool] of client
// connections, one per credential, and the chain that every attempt runs
// through: metrics, breaker, timeout, forward. Messages are never decoded:
// [RawCodec] hands grpc-go the very buffers that came in.
//
// It promises:
//   - a connection never carries another credential than the one it was made
//     for;
//   - evicting, expiring or revoking a connection breaks no call in flight;
//   - a deadline never grows, and the caller's cancellation reaches the
//     backend;
//   - headers, trailers and the status of the backend reach the exchange
//     untouched, and an error tells who made it: the backend ([StatusError]),
//     the way to it ([UnreachableError], [TimeoutError], [LocalError]), the
//     breaker ([BreakerOpenError]) or the exchange itself ([ExchangeError]).
package rpcproxy
