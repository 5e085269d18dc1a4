package config

// Admin is the port for operators: metrics, health, profiles, backends and their breakers, and, with operators, the
// API for apps and their tokens.
type Admin struct {
	// host:port to listen on; `off` for none. Without operators it has no authentication: keep it private.
	Address string `yaml:"address" default:"127.0.0.1:9091"`
	// Serve TLS instead of clear text. With client_ca_file, operators may present a certificate in place of a token;
	// nobody else has to.
	TLS *ServerTLS `yaml:"tls"`
	// Serve /debug/pprof and gRPC channelz.
	Debug bool `yaml:"debug" default:"true"`
	// Who may use the API for apps and tokens, which is not served without any, force breakers, and look into
	// /debug. Health, metrics, backends and the OpenAPI documents stay open to all who reach the port.
	Operators []Operator `yaml:"operators"`
	// File that gets a line of JSON for each change, and for each attempt that was refused. It is opened anew for each
	// line, so it may be rotated away. Empty: they go to the log.
	AuditLog string `yaml:"audit_log" path:"file"`
}

// Operator is somebody who may use the admin port, by a token or by a certificate.
type Operator struct {
	// The name, for the audit log.
	Name string `yaml:"name" jsonschema:"required"`
	// The SHA-256 of the operator's token in hex, as `gateway operator token` prints it.
	TokenHash Secret `yaml:"token_hash"`
	// File that holds it.
	TokenHashFile string `yaml:"token_hash_file" path:"file"`
	// The common name, or a DNS name, e-mail address or URI among the alternative names, of the operator's certificate,
	// which the authorities in admin.tls.client_ca_file have signed.
	Certificate string `yaml:"certificate"`
	// What is allowed: read, or write too.
	Role string `yaml:"role" default:"read" enum:"read,write"`
}
