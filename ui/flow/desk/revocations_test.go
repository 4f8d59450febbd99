package desk

import (
	"strings"
	"testing"
)

// TestRevokeEndedTicket: a ticket that somebody else has ended is no failure; one that may not be ended is.
func TestRevokeEndedTicket(t *testing.T) {
	w := desk(t)
	for _, r := range []Revocation{{User: "jane", Tickets: []string{"ghijkl"}}, {User: "jane", Tickets: []string{"abcdef"}}, {User: "joe"}} {
		err := NewRevocations(w.Env).Revoke(t.Context(), "", &r)
		if done, failed := strings.Join(r.Done, ""), strings.Join(r.Failed, ""); err != nil ||
			strings.Contains(done, "ghijkl") == strings.Contains(failed, "abcdef") && r.User == "jane" {
			t.Errorf("%q: done %q, failed %q, %v", r.Tickets, r.Done, r.Failed, err)
		}
		w.Server.Forbid("delete secrets")
	}
}
