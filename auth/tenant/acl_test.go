package tenant

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/config"
)

// An operator's user in Redis needs no right beyond the keys and the channel
// with the prefix.
func TestOperatorWithFewRights(t *testing.T) {
	admin := startRedis(t)
	ctx := t.Context()
	if err := admin.Do(ctx, "acl", "setuser", "operator", "on", ">pass", "~gw:*", "&gw:*", "+@all", "-@dangerous", "-@admin").Err(); err != nil {
		t.Fatal(err)
	}
	client, ok := admin.(*redis.Client)
	if !ok {
		t.Fatal("not one server")
	}
	o := *client.Options()
	o.Username, o.Password = "operator", "pass"
	rdb := redis.NewClient(&o)
	defer func() { _ = rdb.Close() }()
	s := NewStore(rdb, config.Auth{KeyPrefix: "gw"})

	_ = issueAsBefore(t, s, "older", time.Time{})
	issued := someRecords(t, s)
	var lines strings.Builder
	encode := json.NewEncoder(&lines)
	if err := s.Export(ctx, func(r Record) error { return encode.Encode(r) }); err != nil {
		t.Fatal(err)
	}
	for _, app := range []string{"acme", "beta", "older"} {
		if err := s.DeleteApp(ctx, app); err != nil {
			t.Fatal(err)
		}
	}
	if n := admin.DBSize(ctx).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
	if sum, err := s.ImportLines(ctx, strings.NewReader(lines.String()), ImportOptions{}); err != nil || sum.Created == 0 {
		t.Errorf("imported %+v, %v", sum, err)
	}
	if _, err := Load(ctx, rdb, s.keys, "acme", issued[1].ID); err != nil {
		t.Error(err)
	}
	must(s.ChangeToken(ctx, "acme", issued[1].ID, TokenChange{Note: ptr("n")}))(t)
	must(admin.HSet(ctx, "gw:zrpc", "acme", "plain").Result())(t)
	if sum, err := ImportGoZero(ctx, rdb, "gw:zrpc", s, GoZeroOptions{}); err != nil || sum.Created != 1 {
		t.Errorf("imported %+v, %v", sum, err)
	}
	if apps, _, err := s.Apps(ctx, "", 0); err != nil || len(apps) != 3 {
		t.Errorf("apps are %+v, %v", apps, err)
	}
}
