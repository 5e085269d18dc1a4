package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/admin"
	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/gateway"
	"github.com/rpcgate/rpcgate/usage"
)

// wireAdmin gives a gateway its operators and, where it has a Redis, the API for
// apps and tokens. Without operators there is nothing to wire. The API has
// connections of its own to Redis, so that no listing holds up a look-up.
func (p *parts) wireAdmin(deps *gateway.Deps) error {
	cfg := p.cfg.Admin
	if len(cfg.Operators) == 0 || cfg.Address == config.Off {
		return nil
	}
	audit, err := admin.NewAudit(cfg.AuditLog, p.log)
	if err != nil {
		return err
	}
	all, err := admin.NewOperators(cfg.Operators, audit)
	if err != nil {
		return err
	}
	deps.Operators = operators{all}
	if len(p.cfg.Redis.Addresses) == 0 {
		return nil
	}
	rdb, err := auth.Open(p.cfg.Redis)
	if err != nil {
		return err
	}
	p.onClose("the admin API's redis client", rdb.Close)
	s := newAdminService(rdb, p.cfg.Auth, audit, p.log)
	deps.AdminServices = &gateway.AdminServices{Files: admin.Files(), Register: s.Register, Unary: s.Unary, Stream: s.Stream}
	return nil
}

// newAdminService is the one implementation behind the API and the commands.
func newAdminService(rdb redis.UniversalClient, cfg config.Auth, audit *admin.Audit, log *slog.Logger) *admin.Service {
	return admin.New(admin.Options{
		Store: tenant.NewStore(rdb, cfg), Audit: audit, Log: log,
		Trail: admin.NewTrail(rdb, tenant.KeysOf(cfg).Audit()),
		Judge: func(ctx context.Context, q auth.Question) auth.Answer { return freshJudge(ctx, rdb, cfg, q) },
		Ask: func(ctx context.Context, q auth.Question) ([]auth.Answer, []string, error) {
			return auth.AskNodes(ctx, rdb, tenant.KeysOf(cfg), q)
		},
		Question: func(c auth.Credential, from string) (auth.Question, error) { return auth.NewQuestion(cfg, c, from) },
		Usage: func(ctx context.Context, app string, first, last time.Time) ([]usage.Row, error) {
			return usage.Read(ctx, rdb, tenant.KeysOf(cfg), app, first, last)
		},
	})
}

// operators are admin's, for the gateway.
type operators struct{ *admin.Operators }

func (o operators) Admit(ctx context.Context, r gateway.AdminRequest) (context.Context, error) {
	return o.Operators.Admit(ctx, admin.Request(r))
}

func (o operators) Served(ctx context.Context, c gateway.AdminChange, err error) {
	o.Operators.Served(ctx, admin.Entry{Method: c.Method, App: c.App, Fields: c.Fields}, err)
}

// freshJudge asks Redis itself: it remembers nothing.
func freshJudge(ctx context.Context, rdb redis.UniversalClient, cfg config.Auth, q auth.Question) auth.Answer {
	cfg.Cache.Entries, cfg.Cache.NegativeEntries = 1, 1
	v, err := auth.NewVerifier(rdb, cfg, auth.VerifierOptions{})
	if err != nil {
		return auth.Answer{Verdict: auth.VerdictUnavailable}
	}
	return v.Judge(ctx, q)
}
