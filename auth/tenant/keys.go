package tenant

import "github.com/rpcgate/rpcgate/config"

// Keys makes the keys in Redis. All keys of one app have its id as their hash
// tag, so that they share a slot of a cluster and one script can use them
// together:
//
//	<prefix>:{<app>}:app         hash: the app's record; see app_record.go
//	<prefix>:{<app>}:token:<id>  hash: a token's record; see token_record.go
//	<prefix>:{<app>}:tokens      sorted set: id, by the Unix milliseconds when it vanishes, or +inf
//	<prefix>:{<app>}:ids         sorted set: id, all by 0, and so by itself: what pages go by
//	<prefix>:{<app>}:usage:<day> hash: what the app used on a day, as package usage has it
//	<prefix>:{<app>}:rate:<of>   string: how far the app's calls are ahead of a rate (GCRA); of: app, token:<id>, route:<method>
//	<prefix>:{<app>}:quota:<day or month>:<of> hash: calls in it, and what gateways asked last
//	<prefix>:app-ids             sorted set: app ids with a record or a token, all by 0
//	<prefix>:apps                set: app ids of older versions, until they are adopted
//	<prefix>:audit               stream: what operators did of late, as package admin has it
//	<prefix>:revocations         channel, for the gozero layout too
//	<prefix>:imported            hash: since when there are tokens from zRPC
//	<prefix>:nodes               sorted set: gateways, by the Unix milliseconds of their last sign of life
//	<prefix>:questions           channel: what operators ask all gateways
//	<prefix>:answers:<nonce>     list: what they say to one question
type Keys struct{ prefix string }

// KeysOf are the keys that cfg names.
func KeysOf(cfg config.Auth) Keys {
	if cfg.KeyPrefix == "" {
		return Keys{"rpcgate"}
	}
	return Keys{cfg.KeyPrefix}
}

// App is the record of an app.
func (k Keys) App(app string) string { return k.of(app) + "app" }

// Token is the record of a token.
func (k Keys) Token(app, id string) string { return k.of(app) + "token:" + id }

// Tokens is the index of an app's tokens by their end.
func (k Keys) Tokens(app string) string { return k.of(app) + "tokens" }

// IDs is the index of an app's tokens by their ids.
func (k Keys) IDs(app string) string { return k.of(app) + "ids" }

// Usage is what an app used on a day, given as yyyymmdd.
func (k Keys) Usage(app, day string) string { return k.of(app) + "usage:" + day }

// Rate is what is known of a rate; of is what the rate is of.
func (k Keys) Rate(app, of string) string { return k.of(app) + "rate:" + of }

// Quota counts calls in a period, yyyymmdd or yyyymm.
func (k Keys) Quota(app, period, of string) string { return k.of(app) + "quota:" + period + ":" + of }

// AppIDs is the index of apps.
func (k Keys) AppIDs() string { return k.prefix + ":app-ids" }

// Apps is the set of apps that older versions kept.
func (k Keys) Apps() string { return k.prefix + ":apps" }

// Audit is what operators did of late.
func (k Keys) Audit() string { return k.prefix + ":audit" }

// Revocations is the channel that each [Message] is published on.
func (k Keys) Revocations() string { return k.prefix + ":revocations" }

// of is what all keys of an app begin with.
func (k Keys) of(app string) string { return k.prefix + ":{" + app + "}:" }
