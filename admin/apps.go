package admin

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/auth/tenant"
)

// appService serves rpcgate.admin.v1.AppService. Its errors are the store's; see
// Service.status.
type appService struct {
	adminpb.UnimplementedAppServiceServer
	*Service
}

func (s appService) CreateApp(ctx context.Context, r *adminpb.CreateAppRequest) (*adminpb.App, error) {
	a := r.GetApp()
	status, err := statusFrom(a.GetStatus())
	if err != nil {
		return nil, err
	}
	app, err := s.Store.CreateApp(ctx, tenant.App{
		ID: a.GetId(), Name: a.GetName(), Status: status, Scopes: a.GetScopes(), Limits: limitsFrom(a.GetLimits()),
		Priority: a.GetPriority(), Weight: int(a.GetWeight()), Contact: a.GetContact(),
	})
	return appTo(app), err
}

func (s appService) GetApp(ctx context.Context, r *adminpb.GetAppRequest) (*adminpb.App, error) {
	app, err := s.Store.App(ctx, r.GetApp())
	return appTo(app), err
}

func (s appService) ListApps(ctx context.Context, r *adminpb.ListAppsRequest) (*adminpb.ListAppsResponse, error) {
	size, err := pageSize(r.GetPageSize())
	if err != nil {
		return nil, err
	}
	apps, next, err := s.Store.Apps(ctx, r.GetPageToken(), size)
	if err != nil {
		return nil, err
	}
	page := &adminpb.ListAppsResponse{NextPageToken: next, Apps: make([]*adminpb.App, len(apps))}
	for i, app := range apps {
		page.Apps[i] = appTo(app)
	}
	return page, nil
}

func (s appService) UpdateApp(ctx context.Context, r *adminpb.UpdateAppRequest) (*adminpb.App, error) {
	a := r.GetApp()
	paths, err := changedPaths(r.GetUpdateMask().GetPaths(), "id", "version")
	if err != nil {
		return nil, err
	}
	app, err := s.changeApp(ctx, a, paths)
	return appTo(app), err
}

// changeApp changes fields of an app. Who changes some of the limits alone does
// not undo another's change of others.
func (s appService) changeApp(ctx context.Context, a *adminpb.App, paths []string) (tenant.App, error) {
	var c tenant.AppChange
	var limits []string
	for _, path := range paths {
		switch name, rest, _ := strings.Cut(path, "."); {
		case name == "limits" && rest != "":
			limits = append(limits, rest)
		case path == "name":
			c.Name = new(a.GetName())
		case path == "status":
			status, err := statusFrom(a.GetStatus())
			if err != nil {
				return tenant.App{}, err
			}
			c.Status = &status
		case path == "scopes":
			c.Scopes = new(slices.Clone(a.GetScopes()))
		case path == "limits":
			c.Limits = new(limitsFrom(a.GetLimits()))
		case path == "priority":
			c.Priority = new(a.GetPriority())
		case path == "weight":
			c.Weight = new(int(a.GetWeight()))
		case path == "contact":
			c.Contact = new(a.GetContact())
		default:
			return tenant.App{}, badField("update_mask", "there is no field "+quoted(path)+" of an app that can be changed")
		}
	}
	c.IfVersion = a.GetVersion()
	if limits == nil {
		return s.Store.ChangeApp(ctx, a.GetId(), c)
	}
	return tryAgain(a.GetVersion() == 0, func() (tenant.App, error) {
		was, err := s.Store.App(ctx, a.GetId())
		if err != nil {
			return tenant.App{}, err
		}
		if c.IfVersion = a.GetVersion(); c.IfVersion == 0 {
			c.IfVersion = was.Version
		}
		if c.Limits, err = someLimits(was.Limits, limits, a.GetLimits()); err != nil {
			return tenant.App{}, err
		}
		return s.Store.ChangeApp(ctx, a.GetId(), c)
	})
}

func (s appService) SuspendApp(ctx context.Context, r *adminpb.SuspendAppRequest) (*adminpb.App, error) {
	app, err := s.Store.ChangeApp(ctx, r.GetApp(), tenant.AppChange{Status: new(tenant.Suspended)})
	return appTo(app), err
}

func (s appService) ResumeApp(ctx context.Context, r *adminpb.ResumeAppRequest) (*adminpb.App, error) {
	app, err := s.Store.ChangeApp(ctx, r.GetApp(), tenant.AppChange{Status: new(tenant.Active)})
	return appTo(app), err
}

func (s appService) DeleteApp(ctx context.Context, r *adminpb.DeleteAppRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, s.Store.DeleteApp(ctx, r.GetApp())
}

func statusFrom(s adminpb.App_Status) (tenant.Status, error) {
	switch s {
	case adminpb.App_STATUS_UNSPECIFIED, adminpb.App_ACTIVE:
		return tenant.Active, nil
	case adminpb.App_SUSPENDED:
		return tenant.Suspended, nil
	default:
		return "", badField("status", "the status is neither ACTIVE nor SUSPENDED")
	}
}

func appTo(a tenant.App) *adminpb.App {
	status := adminpb.App_ACTIVE
	if a.Status == tenant.Suspended {
		status = adminpb.App_SUSPENDED
	}
	return &adminpb.App{
		Id: a.ID, Name: a.Name, Status: status, Scopes: a.Scopes, Limits: limitsTo(a.Limits), Priority: a.Priority,
		Weight: small(a.Weight), Contact: a.Contact, Created: timeTo(a.Created), Updated: timeTo(a.Updated), Version: a.Version,
	}
}

func timeTo(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
