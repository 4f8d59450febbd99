package desk

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/ui/flow/deeds"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestRevokeEndedTicket: a ticket that somebody else has ended is no failure; one
// that may not be ended is.
func TestRevokeEndedTicket(t *testing.T) {
	e, _ := flowtest.Env(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, reason := http.StatusNotFound, "NotFound"
		if strings.HasSuffix(r.URL.Path, "bootstrap-token-ghijkl") {
			code, reason = http.StatusForbidden, "Forbidden"
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + reason + `","code":` +
			strconv.Itoa(code) + `}`))
	}))
	defer server.Close()
	flowtest.PointAt(t, e, server)
	r := Revocation{User: "jane", Tickets: []string{"abcdef", "ghijkl"}}
	if err := NewRevocations(e).Revoke(t.Context(), "", &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Done) != 1 || !strings.Contains(r.Done[0], "abcdef") || len(r.Failed) != 1 ||
		!strings.Contains(r.Failed[0], "ghijkl") {
		t.Errorf("done %q, failed %q", r.Done, r.Failed)
	}
	if err := NewRevocations(e).Revoke(t.Context(), "", &Revocation{User: "joe"}); err != nil {
		t.Fatal(err)
	}
	on, err := deeds.NewLog(e).All()
	if err != nil || len(on) != 2 || !strings.HasPrefix(on[0].Note, "done: ") ||
		!strings.Contains(on[0].Note, "; failed: ") || on[1].Note != "" {
		t.Errorf("on record: %+v, %v", on, err)
	}
}
