package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// A failed call to all endpoints fails in the route's form of errors, with the
// list beside what every error has.
func TestListedFailuresHaveTheRoutesForm(t *testing.T) {
	t.Parallel()
	failure := &callError{Code: codes.Unavailable, Reason: fanOutFailed, Message: "the call failed"}
	const list = `"endpoints":[{"endpoint":"h:1","code":"OK"}]`
	for name, tc := range map[string]struct {
		format  errorFormat
		failure *callError
	}{
		"status":            {errorsStatus, failure},
		"status, bare":      {errorsStatus, failure.withoutDetails()},
		"problem":           {errorsProblem, failure},
		"problem, bare":     {errorsProblem, failure.withoutDetails()},
		"an envelope":       {errorsEnvelope, failure},
		"an envelope, bare": {errorsEnvelope, failure.withoutDetails()},
	} {
		var plain, listed map[string]any
		if err := json.Unmarshal(appendFailure(nil, tc.failure, nil, tc.format), &plain); err != nil {
			t.Fatal(err)
		}
		text := appendListed(nil, tc.failure, nil, tc.format, []byte(list))
		if err := json.Unmarshal(text, &listed); err != nil {
			t.Fatalf("%s: %v: %s", name, err, text)
		}
		in := listed
		if tc.format == errorsEnvelope {
			in = listed["data"].(map[string]any)
			if plain["data"] == nil {
				plain["data"] = map[string]any{}
			}
		}
		if len(in["endpoints"].([]any)) != 1 {
			t.Errorf("%s: %s", name, text)
		}
		delete(in, "endpoints")
		if want, got := shownJSON(t, plain), shownJSON(t, listed); want != got {
			t.Errorf("%s: beside the list it has\n%s, want\n%s", name, got, want)
		}
		if (tc.failure == failure) != strings.Contains(string(text), fanOutFailed) {
			t.Errorf("%s: the reason: %s", name, text)
		}
	}
}

func shownJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
