package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	codepb "google.golang.org/genproto/googleapis/rpc/code"

	"github.com/rpcgate/rpcgate/admin/adminpb"
)

// maxTrail bounds the entries that Redis keeps, about.
const maxTrail = 10_000

// trailTimeout bounds how long a change waits for its entry.
const trailTimeout = 2 * time.Second

// Trail is what operators did of late, in a stream of Redis', so that it is known
// in one place whichever gateway, or command line, it was done by. Who was not
// admitted is not in it: anybody could push out of it what is.
type Trail struct {
	rdb redis.UniversalClient
	key string
}

// NewTrail makes the trail in the stream key.
func NewTrail(rdb redis.UniversalClient, key string) *Trail { return &Trail{rdb, key} }

// Add adds an entry.
func (t *Trail) Add(ctx context.Context, e Entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return t.rdb.XAdd(ctx, &redis.XAddArgs{
		Stream: t.key, MaxLen: maxTrail, Approx: true, Values: []any{"entry", text},
	}).Err()
}

// streamID is a stream's own name for an entry.
var streamID = regexp.MustCompile(`^[0-9]{1,20}-[0-9]{1,20}$`)

// Page gives entries from before another on, or of all of them, the latest first.
// next is before for the next page; empty: there is none.
func (t *Trail) Page(ctx context.Context, before string, size int) (page []Entry, next string, err error) {
	end := "+"
	if before != "" {
		if !streamID.MatchString(before) {
			return nil, "", badField("page_token", "the page token is none")
		}
		end = "(" + before
	}
	found, err := t.rdb.XRevRangeN(ctx, t.key, end, "-", int64(size)).Result()
	if err != nil {
		return nil, "", fmt.Errorf("read the trail: %w", err)
	}
	for _, m := range found {
		text, _ := m.Values["entry"].(string)
		var e Entry
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			e = damaged(m.ID)
		}
		page = append(page, e)
	}
	if len(found) == size {
		next = found[size-1].ID
	}
	return page, next, nil
}

// damaged stands for an entry that cannot be read, so that the others still can.
func damaged(id string) Entry {
	ms, _, _ := strings.Cut(id, "-")
	at, _ := strconv.ParseInt(ms, 10, 64) // Redis' own
	return Entry{Time: time.UnixMilli(at), Method: "(damaged)", Result: codepb.Code_UNKNOWN.String()}
}

// auditService serves rpcgate.admin.v1.AuditService.
type auditService struct {
	adminpb.UnimplementedAuditServiceServer
	*Service
}

func (s auditService) ListAudit(ctx context.Context, r *adminpb.ListAuditRequest) (*adminpb.ListAuditResponse, error) {
	size, err := pageSize(r.GetPageSize())
	if err != nil || s.Trail == nil {
		return &adminpb.ListAuditResponse{}, err
	}
	entries, next, err := s.Trail.Page(ctx, r.GetPageToken(), size)
	if err != nil {
		return nil, err
	}
	out := &adminpb.ListAuditResponse{NextPageToken: next, Entries: make([]*adminpb.AuditEntry, len(entries))}
	for i, e := range entries {
		out.Entries[i] = &adminpb.AuditEntry{
			Time: timeTo(e.Time), Operator: e.Operator.Name, From: e.Operator.From, Method: e.Method,
			App: e.App, TokenId: e.TokenID, Fields: e.Fields, Result: e.Result, Reason: e.Reason,
		}
	}
	return out, nil
}
