// Package chaos runs a steady load of tagged calls through three gateways to
// five backend endpoints, with an etcd and a Redis, while a random schedule of
// faults befalls all of them, and then checks an account of every call: what it
// was answered, what the backends' journals say was done for it, and that the
// gateways are left as they were.
//
// A schedule is a function of its seed: what went wrong once can be run again.
package chaos
