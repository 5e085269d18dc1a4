// Package usage owns what apps use: how many calls of which routes, day by day,
// how many of them failed and through whom, and how many bytes went in and out.
// It counts in memory ([Counts]), adds that to Redis every few seconds
// ([Flusher]), and reads it there ([Read]).
//
// It is a room of its own: it is no limit, since no call is ever refused for it,
// and nothing of a credential but the app's id.
//
// What it promises:
//
//   - Counting takes no lock that calls share, and allocates only when an app
//     first calls a route.
//   - What is in Redis is never more than what happened: a flush whose outcome is
//     unknown is repeated as it was, under its number, and a number counts once.
//   - A gateway that is killed loses what it counted since its last flush. While
//     Redis cannot be asked, what is counted is kept, and lost only with the
//     process.
//   - Memory is bounded, whatever apps and routes there are. What does not fit
//     counts for the route [OtherRoute]; what does not even fit there is not
//     counted, and a metric tells how much that is.
//
// Days are UTC's. A call belongs to the day that it ended on.
package usage

// OtherRoute stands for the routes that there was no room to count one by one.
const OtherRoute = "other"

// Blame says through whom a call failed.
type Blame uint8

// Nobody: the call did not fail. Caller: what it asked for was wrong, or it did
// not wait for the answer. Gateway: it was refused, for a limit or because the
// gateway could not serve it. Backend: the backend failed, or was not there.
const (
	Nobody Blame = iota
	Caller
	Gateway
	Backend
)
