package admin

import (
	"context"
	"errors"
	"net/netip"

	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/auth/tenant"
)

func (s tokenService) VerifyToken(ctx context.Context, r *adminpb.VerifyTokenRequest) (*adminpb.VerifyTokenResponse, error) {
	q, known, err := s.question(r)
	if err != nil {
		return nil, err
	}
	out := &adminpb.VerifyTokenResponse{App: r.GetApp(), Id: q.TokenID}
	if !known { // no gateway asks Redis for it
		out.Verdict = string(auth.VerdictUnknown)
	} else {
		own := s.Judge(ctx, q)
		if own.Verdict == auth.VerdictUnavailable {
			return nil, errors.New("verify a token: Redis cannot be asked")
		}
		out.Verdict, out.Valid = string(own.Verdict), own.Verdict == auth.VerdictValid
	}
	if !r.GetAllNodes() {
		return out, nil
	}
	if !known {
		q = auth.Question{App: r.GetApp(), TokenID: noSuchID}
	}
	answers, missing, err := s.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		out.Nodes = append(out.Nodes, &adminpb.VerifyTokenResponse_Node{
			Node: a.Node, Valid: a.Verdict == auth.VerdictValid, Verdict: string(a.Verdict), Cached: a.Cached,
		})
	}
	for _, node := range missing {
		out.Nodes = append(out.Nodes, &adminpb.VerifyTokenResponse_Node{Node: node, Missing: true})
	}
	return out, nil
}

// noSuchID is asked for in the place of what is no token.
const noSuchID = "aaaaaaaaaaaaaaaa"

// question tells too whether there may be such a token.
func (s tokenService) question(r *adminpb.VerifyTokenRequest) (q auth.Question, known bool, err error) {
	if err := tenant.ValidateApp(r.GetApp()); err != nil {
		return q, false, err
	}
	if r.GetFrom() != "" {
		if _, err := netip.ParseAddr(r.GetFrom()); err != nil {
			return q, false, badField("from", "from is no IP address")
		}
	}
	switch {
	case (r.GetToken() == "") == (r.GetId() == ""):
		return q, false, badField("token", "give the token, or its id")
	case r.GetId() != "":
		q = auth.Question{App: r.GetApp(), TokenID: r.GetId(), From: r.GetFrom()}
		return q, isID(r.GetId()), nil
	}
	q, err = s.Question(auth.Credential{App: r.GetApp(), Token: r.GetToken()}, r.GetFrom())
	if errors.Is(err, auth.ErrInvalid) || errors.Is(err, auth.ErrMalformed) {
		return auth.Question{}, false, nil
	}
	return q, err == nil, err
}
