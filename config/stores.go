package config

import "time"

// Redis is where tokens are kept. Single server, sentinel or cluster, by Mode.
type Redis struct {
	// host:port of the server, of the sentinels, or of some cluster nodes.
	Addresses []string `yaml:"addresses"`
	// single, sentinel or cluster.
	Mode string `yaml:"mode" default:"single" enum:"single,sentinel,cluster"`
	// The name that the sentinels know the master by.
	MasterName string `yaml:"master_name"`
	// The ACL user; empty: the default user.
	Username string `yaml:"username"`
	// The password. Prefer password_file or ${ENV}.
	Password Secret `yaml:"password"`
	// File that holds the password.
	PasswordFile string `yaml:"password_file" path:"file"`
	// The sentinels' own ACL user, where it differs.
	SentinelUsername string `yaml:"sentinel_username"`
	// The sentinels' own password, where it differs.
	SentinelPassword Secret `yaml:"sentinel_password"`
	// File that holds the sentinels' password.
	SentinelPasswordFile string `yaml:"sentinel_password_file" path:"file"`
	// The database number; must be 0 for a cluster.
	DB int `yaml:"db" default:"0"`
	// Speak TLS to the servers.
	TLS *ClientTLS `yaml:"tls"`
	// Connections per server.
	PoolSize int `yaml:"pool_size" default:"20" min:"1"`
	// How long a connection may take to be made.
	DialTimeout time.Duration `yaml:"dial_timeout" default:"1s" min:"1ms"`
	// How long an answer may take.
	ReadTimeout time.Duration `yaml:"read_timeout" default:"500ms" min:"1ms"`
	// How long a request may take to be sent.
	WriteTimeout time.Duration `yaml:"write_timeout" default:"500ms" min:"1ms"`
}

// Etcd is where backends register.
type Etcd struct {
	// host:port, or URLs, of the members.
	Endpoints []string `yaml:"endpoints"`
	// The user, where etcd's authentication is on.
	Username string `yaml:"username"`
	// The password. Prefer password_file or ${ENV}.
	Password Secret `yaml:"password"`
	// File that holds the password.
	PasswordFile string `yaml:"password_file" path:"file"`
	// Speak TLS to the members.
	TLS *ClientTLS `yaml:"tls"`
	// How long a connection may take to be made.
	DialTimeout time.Duration `yaml:"dial_timeout" default:"3s" min:"1ms"`
}

// Auth says how credentials are verified.
type Auth struct {
	// What happens when Redis cannot be asked. strict: calls are refused with UNAVAILABLE, but for credentials
	// verified at most cache.ttl + cache.stale ago. lenient: a credential that was seen valid before passes,
	// however long ago, while it is in the cache. An unknown app or a wrong token is refused in every mode.
	Mode string `yaml:"mode" default:"strict" enum:"strict,lenient"`
	// What the keys in Redis begin with.
	KeyPrefix string `yaml:"key_prefix" default:"rpcgate"`
	// This gateway's name among those that share the Redis; no two may have the same. Empty: its host's, and some letters
	// by chance.
	Node string `yaml:"node"`
	// Read tokens as go-zero's zRPC keeps them, instead of rpcgate's own hashed layout.
	GoZero *GoZero `yaml:"gozero"`
	// The cache of look-ups.
	Cache CredentialCache `yaml:"cache"`
	// How many of Redis' replicas must have a revocation (a suspension, a deletion) before it is said to be done;
	// with fewer it is reported as unconfirmed. 0: it is not asked.
	ConfirmReplicas int `yaml:"confirm_replicas" default:"0" min:"0"`
	// How long the replicas have for it.
	ConfirmTimeout time.Duration `yaml:"confirm_timeout" default:"1s" min:"1ms"`
	// How often guesses may fail.
	Guessing Guessing `yaml:"guessing"`
	// What a revocation does to calls already in flight: finish lets them end, cancel ends them with the
	// connections of that credential (backends with pool.key: credential).
	RevokeInFlight string `yaml:"revoke_in_flight" default:"finish" enum:"finish,cancel"`
}

// GoZero is zRPC's layout: one hash, app to token, in plain text.
type GoZero struct {
	// The key of the hash.
	Key string `yaml:"key" jsonschema:"required"`
}

// CredentialCache bounds what is remembered of Redis' answers.
type CredentialCache struct {
	// How many tokens are remembered.
	Entries int `yaml:"entries" default:"65536" min:"1"`
	// How long an answer is used. From 7/10 of it on Redis is asked again beside its use.
	TTL time.Duration `yaml:"ttl" default:"5m" min:"1ms"`
	// How many unknown tokens are remembered, apart from the known ones.
	NegativeEntries int `yaml:"negative_entries" default:"8192" min:"1"`
	// How long an unknown token is remembered as such.
	NegativeTTL time.Duration `yaml:"negative_ttl" default:"5s" min:"1ms"`
	// How long it is remembered that Redis could not be asked for a token that is not known, at most: a failure
	// that follows others counts for that long, the first one for 100ms. Who comes in that time is refused with
	// UNAVAILABLE at once.
	ErrorTTL time.Duration `yaml:"error_ttl" default:"1s" min:"1ms"`
	// How long past its TTL an answer still serves while Redis cannot be asked.
	Stale time.Duration `yaml:"stale" default:"10m"`
	// How long one look-up may take.
	LoadTimeout time.Duration `yaml:"load_timeout" default:"1s" min:"1ms"`
	// How many look-ups may run at once; beyond it new credentials are refused with UNAVAILABLE.
	MaxLoads int `yaml:"max_loads" default:"128" min:"1"`
}
