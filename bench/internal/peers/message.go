package peers

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rpcgate/rpcgate/bench/internal/catalogpb"
	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
)

// The one user that the small calls of the bench are about. As JSON it is 150 bytes.
const (
	UserID   = 42
	nameSize = 150 - len(`{"id":"42","name":""}`)
)

// User is the message that the backend answers with.
func User() *shoppb.User {
	return &shoppb.User{Id: UserID, Name: UserName()}
}

// UserName is plain ASCII, so that it stands alike in JSON and on the wire.
func UserName() string {
	return strings.Repeat("Ada Lovelace ", nameSize/13+1)[:nameSize]
}

// How many items the larger pages have; as JSON they are some 4 KB and 100 KB.
const (
	MediumItems = 20
	LargeItems  = 500
)

// Page is a page with n items.
func Page(n int) *catalogpb.Page {
	page := &catalogpb.Page{Title: "Everything in store"}
	for i := range n {
		page.Items = append(page.Items, Item(i))
	}
	return page
}

// Item is the i-th item of a page or a stream; as JSON some 200 bytes.
func Item(i int) *catalogpb.Item {
	return &catalogpb.Item{
		Id:         int64(1_000_000 + i),
		Name:       ItemName(i),
		State:      catalogpb.State_STATE_ACTIVE,
		Price:      &catalogpb.Price{Currency: "EUR", Amount: 19.95 + float64(i)},
		Tags:       []string{"new", "kitchen"},
		Created:    &timestamppb.Timestamp{Seconds: 1_700_000_000 + int64(i)},
		Attributes: map[string]string{"colour": "dark green"},
		InStock:    true,
	}
}

// ItemName tells items apart, and the last one of an answer.
func ItemName(i int) string { return fmt.Sprintf("a kettle, model %d.", i) }
