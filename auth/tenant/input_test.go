package tenant

import (
	"strings"
	"testing"
)

// Who gives a token a scope that its app has not is told what the app has.
func TestScopeOutsideOfTheAppsIsTold(t *testing.T) {
	t.Parallel()
	apps := []string{"shop.*/*", "stock.Items/Get*"}
	if err := checkWithin([]string{"shop.OrderService/GetOrder", "GET /v1/orders"}, apps); err != nil {
		t.Error(err)
	}
	err := checkWithin([]string{"bank.Ledger/Post"}, apps)
	if err == nil || !strings.HasSuffix(err.Error(), `"bank.Ledger/Post" is outside of all that the app may call: shop.*/*, stock.Items/Get*`) {
		t.Errorf("got %v", err)
	}
	many := strings.Fields(strings.Repeat("shop.*/* ", 128))
	if err := checkWithin([]string{"bank.Ledger/Post"}, many); err == nil || len(err.Error()) > 200 {
		t.Errorf("got %v", err)
	}
}
