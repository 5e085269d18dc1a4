package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits"
)

// Operator is who does something.
type Operator struct {
	// As the configuration has it; of the command line, the user's.
	Name string
	// Where from: an address, or "cli".
	From string
}

type operatorKey struct{}

// WithOperator gives a context to what an operator does.
func WithOperator(ctx context.Context, o Operator) context.Context {
	return context.WithValue(ctx, operatorKey{}, o)
}

// OperatorOf is who does it; the zero value: nobody was admitted.
func OperatorOf(ctx context.Context) Operator {
	o, _ := ctx.Value(operatorKey{}).(Operator)
	return o
}

// Request is what somebody wants to do, and what tells who it is.
type Request struct {
	// What for: "package.Service/Method", or an HTTP method and a path.
	Method string
	// Whether nothing is changed by it.
	Reads bool
	// The address that it comes from.
	From string
	// The operator's token; empty: none was given.
	Token string
	// A certificate that was verified; nil: none was given.
	Certificate *x509.Certificate
}

// Operators knows who may do what.
type Operators struct {
	all    []operator
	audit  *Audit
	failed *limits.Guesses
}

type operator struct {
	name        string
	hash        [sha256.Size]byte
	hasHash     bool
	certificate string // empty: none
	writes      bool
}

// maxOperatorToken bounds what is hashed of what somebody presents, in bytes.
const maxOperatorToken = 256

// NewOperators makes the operators of a configuration, which was validated.
// Whoever is refused goes to audit.
func NewOperators(cfg []config.Operator, audit *Audit) (*Operators, error) {
	o := &Operators{
		all: make([]operator, len(cfg)), audit: audit,
		// Far more than people mistype, far less than would fill a disk.
		failed: limits.NewGuesses(config.Guessing{PerAddress: 30, PerApp: 300, Per: time.Minute}),
	}
	for i, c := range cfg {
		o.all[i] = operator{name: c.Name, certificate: c.Certificate, writes: c.Role == "write"}
		if c.TokenHash == "" {
			continue
		}
		if n, err := hex.Decode(o.all[i].hash[:], []byte(c.TokenHash.Reveal())); err != nil || n != sha256.Size {
			return nil, fmt.Errorf("operator %s: the token's hash is no SHA-256 in hex", c.Name)
		}
		o.all[i].hasHash = true
	}
	return o, nil
}

// Admit finds out who asks, and whether he may. The context is for what he does.
// Errors are statuses: UNAUTHENTICATED, PERMISSION_DENIED, or RESOURCE_EXHAUSTED
// for who fails too often, whose attempts are no longer in the audit log;
// UNAVAILABLE where a change could not be noted. Who has a right token is admitted
// however many others fail.
func (o *Operators) Admit(ctx context.Context, r Request) (context.Context, error) {
	who, err := o.find(r)
	if err != nil {
		return nil, o.refuse(Operator{From: r.From}, r, err)
	}
	by := Operator{Name: who.name, From: r.From}
	changes := !r.Reads && !harmless(r.Method)
	if changes && !who.writes {
		return nil, o.refuse(by, r, statusError(codes.PermissionDenied, "OPERATOR_READS_ONLY", "the operator may only read"))
	}
	if changes {
		if err := o.audit.writable(); err != nil {
			return nil, o.audit.unavailable(err)
		}
	}
	return WithOperator(ctx, by), nil
}

// harmless is what changes nothing, though its request may hold a secret and so
// is none that could be a GET.
func harmless(method string) bool {
	return "/"+method == adminpb.TokenService_VerifyToken_FullMethodName
}

// find compares with all there are, so that the time it takes tells nothing.
func (o *Operators) find(r Request) (*operator, error) {
	var found *operator
	switch {
	case r.Token != "" && len(r.Token) <= maxOperatorToken:
		hash := sha256.Sum256([]byte(r.Token))
		for i := range o.all {
			if c := &o.all[i]; subtle.ConstantTimeCompare(hash[:], c.hash[:]) == 1 && c.hasHash {
				found = c
			}
		}
	case r.Token == "" && r.Certificate != nil:
		names := namesOf(r.Certificate)
		for i := range o.all {
			if c := &o.all[i]; c.certificate != "" && slices.Contains(names, c.certificate) {
				found = c
				break
			}
		}
	}
	switch {
	case found != nil:
		return found, nil
	case r.Token == "" && r.Certificate == nil:
		return nil, statusError(codes.Unauthenticated, "OPERATOR_MISSING", "an operator's token is missing: Authorization: Bearer TOKEN")
	}
	return nil, statusError(codes.Unauthenticated, "OPERATOR_UNKNOWN", "the token or the certificate is no operator's")
}

// namesOf are the names that an authority has put into a certificate.
func namesOf(c *x509.Certificate) []string {
	names := slices.Concat(c.DNSNames, c.EmailAddresses)
	if c.Subject.CommonName != "" {
		names = append(names, c.Subject.CommonName)
	}
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	return names
}

// refuse notes an attempt, unless there are too many.
func (o *Operators) refuse(by Operator, r Request, err error) error {
	from, _ := netip.ParseAddr(r.From)
	now := time.Now()
	if wait, ok := o.failed.Allow(now, from, ""); !ok {
		return retryLater(wait)
	}
	o.failed.Failed(now, from, "")
	o.audit.refused(by, r.Method, err)
	return err
}

// Name is who was admitted.
func (o *Operators) Name(ctx context.Context) string { return OperatorOf(ctx).Name }

// Served notes what became of a change that was not made by a service.
func (o *Operators) Served(ctx context.Context, e Entry, err error) {
	e.Operator = OperatorOf(ctx)
	o.audit.Write(e.with(err))
}
