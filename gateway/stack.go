package gateway

// stackRoom is how much stack a call needs, rounded up so that one doubling
// serves: measured on the way through the pipeline, rpcproxy and grpc-go's
// client, which is between 8 and 16 KiB deep. 16 KiB is the largest stack that
// the runtime takes from its caches (Linux); one more doubling costs a lock.
const stackRoom = 12 << 10

// growStack makes sure that the goroutine's stack has room for a call. A new
// goroutine has some 2 KiB; without this, the runtime would double it step by
// step under the call's deepest functions, and copy all frames above them each
// time: 5 µs for a gRPC call. Here it is done at once, while next to nothing is
// there to copy. On a stack that is large enough already it costs a few
// nanoseconds. deep is always false: the room must be in the frame, but not
// cleared.
//
//go:noinline
func growStack(deep bool) int {
	if !deep {
		return 0
	}
	var room [stackRoom]byte
	for i := range room {
		room[i] = byte(i) ^ room[len(room)-1-i]
	}
	return int(room[0])
}
