package admin

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/auth/tenant"
)

// tokenService serves rpcgate.admin.v1.TokenService.
type tokenService struct {
	adminpb.UnimplementedTokenServiceServer
	*Service
}

func (s tokenService) IssueToken(ctx context.Context, r *adminpb.IssueTokenRequest) (*adminpb.IssuedToken, error) {
	networks, err := networksFrom(r.GetNetworks())
	if err != nil {
		return nil, err
	}
	ttl, err := durationFrom("ttl", r.GetTtl())
	if err != nil {
		return nil, err
	}
	expires, err := expiresFrom(r.GetExpires())
	if err != nil {
		return nil, err
	}
	issued, err := s.Store.Issue(ctx, tenant.IssueOptions{
		App: r.GetApp(), Note: r.GetNote(), TTL: ttl, Expires: expires, Scopes: r.GetScopes(), Networks: networks, Limits: limitsFrom(r.GetLimits()),
	})
	return issuedTo(issued), err
}

func (s tokenService) GetToken(ctx context.Context, r *adminpb.GetTokenRequest) (*adminpb.Token, error) {
	t, err := s.Store.Token(ctx, r.GetApp(), r.GetId())
	return tokenTo(t), err
}

func (s tokenService) ListTokens(ctx context.Context, r *adminpb.ListTokensRequest) (*adminpb.ListTokensResponse, error) {
	size, err := pageSize(r.GetPageSize())
	if err != nil {
		return nil, err
	}
	tokens, next, err := s.Store.Tokens(ctx, r.GetApp(), r.GetPageToken(), size)
	if err != nil {
		return nil, err
	}
	page := &adminpb.ListTokensResponse{NextPageToken: next, Tokens: make([]*adminpb.Token, len(tokens))}
	for i, t := range tokens {
		page.Tokens[i] = tokenTo(t)
	}
	return page, nil
}

func (s tokenService) UpdateToken(ctx context.Context, r *adminpb.UpdateTokenRequest) (*adminpb.Token, error) {
	t := r.GetToken()
	paths, err := changedPaths(r.GetUpdateMask().GetPaths(), "app", "id", "version")
	if err != nil {
		return nil, err
	}
	c, limits, err := tokenChange(t, paths)
	if err != nil {
		return nil, err
	}
	changed, err := s.changeToken(ctx, t, c, limits)
	return tokenTo(changed), err
}

// tokenChange reads what is to be changed, and which of the limits alone.
func tokenChange(t *adminpb.Token, paths []string) (c tenant.TokenChange, limits []string, err error) {
	for _, path := range paths {
		switch name, rest, _ := strings.Cut(path, "."); {
		case name == "limits" && rest != "":
			limits = append(limits, rest)
		case path == "note":
			c.Note = new(t.GetNote())
		case path == "expires":
			expires, err := expiresFrom(t.GetExpires())
			if err != nil {
				return c, nil, err
			}
			c.Expires = &expires
		case path == "scopes":
			c.Scopes = new(slices.Clone(t.GetScopes()))
		case path == "networks":
			networks, err := networksFrom(t.GetNetworks())
			if err != nil {
				return c, nil, err
			}
			c.Networks = &networks
		case path == "limits":
			c.Limits = new(limitsFrom(t.GetLimits()))
		default:
			return c, nil, badField("update_mask", "there is no field "+quoted(path)+" of a token that can be changed")
		}
	}
	return c, limits, nil
}

// changeToken changes a token, and some of its limits alone.
func (s tokenService) changeToken(ctx context.Context, t *adminpb.Token, c tenant.TokenChange, limits []string) (tenant.Token, error) {
	c.IfVersion = t.GetVersion()
	if limits == nil {
		return s.Store.ChangeToken(ctx, t.GetApp(), t.GetId(), c)
	}
	return tryAgain(t.GetVersion() == 0, func() (tenant.Token, error) {
		was, err := s.Store.Token(ctx, t.GetApp(), t.GetId())
		if err != nil {
			return tenant.Token{}, err
		}
		if c.IfVersion = t.GetVersion(); c.IfVersion == 0 {
			c.IfVersion = was.Version
		}
		if c.Limits, err = someLimits(was.Limits, limits, t.GetLimits()); err != nil {
			return tenant.Token{}, err
		}
		return s.Store.ChangeToken(ctx, t.GetApp(), t.GetId(), c)
	})
}

func (s tokenService) RotateToken(ctx context.Context, r *adminpb.RotateTokenRequest) (*adminpb.IssuedToken, error) {
	grace, err := durationFrom("grace", r.GetGrace())
	if err != nil {
		return nil, err
	}
	issued, err := s.Store.Rotate(ctx, r.GetApp(), r.GetId(), grace)
	return issuedTo(issued), err
}

func (s tokenService) RevokeToken(ctx context.Context, r *adminpb.RevokeTokenRequest) (*emptypb.Empty, error) {
	if r.GetId() == "" {
		return nil, badField("id", "the token's id is missing; RevokeTokens revokes all of an app's")
	}
	return &emptypb.Empty{}, s.Store.Revoke(ctx, r.GetApp(), r.GetId())
}

func (s tokenService) RevokeTokens(ctx context.Context, r *adminpb.RevokeTokensRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, s.Store.Revoke(ctx, r.GetApp(), "")
}

func tokenTo(t tenant.Token) *adminpb.Token {
	out := &adminpb.Token{
		App: t.App, Id: t.ID, Note: t.Note, Created: timeTo(t.Created), Expires: timeTo(t.Expires), Revoked: timeTo(t.Revoked),
		ReplacedBy: t.ReplacedBy, Scopes: t.Scopes, Limits: limitsTo(t.Limits), LastUsed: timeTo(t.LastUsed), Version: t.Version,
	}
	for _, n := range t.Networks {
		out.Networks = append(out.Networks, n.String())
	}
	return out
}

func issuedTo(i tenant.Issued) *adminpb.IssuedToken {
	return &adminpb.IssuedToken{Secret: i.Secret, Token: tokenTo(i.Token), NewApp: i.NewApp}
}

// networksFrom takes CIDR blocks and single addresses.
func networksFrom(all []string) ([]netip.Prefix, error) {
	networks := make([]netip.Prefix, len(all))
	for i, text := range all {
		addr, err := netip.ParseAddr(text)
		if err == nil {
			networks[i] = netip.PrefixFrom(addr, addr.BitLen())
			continue
		}
		if networks[i], err = netip.ParsePrefix(text); err != nil {
			return nil, badField("networks", quoted(text)+" is neither an address nor a block like 10.0.0.0/8")
		}
	}
	return networks, nil
}

// expiresFrom reads the end of a token's life; nil is none.
func expiresFrom(at *timestamppb.Timestamp) (time.Time, error) {
	if at == nil {
		return time.Time{}, nil
	}
	if err := at.CheckValid(); err != nil {
		return time.Time{}, badField("expires", "expires is no time")
	}
	return at.AsTime(), nil
}

// durationFrom reads a duration that is not below 0; nil is 0.
func durationFrom(field string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil || d.AsDuration() < 0 {
		return 0, badField(field, field+" is no duration, or below 0")
	}
	return d.AsDuration(), nil
}
