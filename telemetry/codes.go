package telemetry

import (
	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
)

// codeCount is how many codes are told apart: gRPC's 17, and one for all
// others, which a backend is free to make up.
const codeCount = int(codes.Unauthenticated) + 2

// codeIndex is c's place in an array of codeCount.
func codeIndex(c codes.Code) int { return min(int(c), codeCount-1) }

// codeName is the canonical name, as in google.rpc.Code: "NOT_FOUND". Codes that
// gRPC does not define are all "OTHER".
func codeName(i int) string {
	if i == codeCount-1 {
		return "OTHER"
	}
	return rpccode.Code(i).String()
}
