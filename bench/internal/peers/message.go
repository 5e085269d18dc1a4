package peers

import (
	"strings"

	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
)

// The one user that the calls of the bench are about. As JSON it is 150 bytes.
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
