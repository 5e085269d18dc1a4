// Package limits decides whether a call may go on: how many calls to one
// backend there may be at once ([Concurrency]), and which calls are shed when
// there are more than the gateway can serve ([Overload]).
//
// It is pure decisions. It knows neither routes nor backends, starts no
// goroutine and reads no clock: whoever uses it tells it of time by calling
// Adjust, and of load by a [Load], which the package load measures. What a call
// costs is a few atomic operations, without a lock and without memory.
package limits
