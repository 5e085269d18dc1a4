// Package global keeps the rates and quotas that all gateways have in common, in
// Redis: global rate limits, as proxies call them, beside those of each process.
//
// What is decided of a call is decided by the [limits.Allowance] of each of its
// limits, without Redis. This package finds them, and asks Redis for them beside
// the calls: a few questions at a time, one per limit, each of which pays for what
// was taken in advance and buys what is likely to be taken soon.
//
// A rate is a bucket that GCRA (the generic cell rate algorithm of ATM Forum's
// Traffic Management 4.0) keeps in one number, by redis_rate's script. A quota is
// a counter for each day or month, by UTC and this machine's clock. No command
// names a key of another app's slot, so that all works in a cluster, and none that
// does not begin with the configured prefix.
package global
