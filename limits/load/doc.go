// Package load measures what load this process is under, by its own doing: how
// much of the processors that it may use it does use ([CPU]), and how long its
// goroutines wait to be run ([Queue]). What others on the machine use is not in
// the first; whoever acts on the second asks the first, too.
package load
