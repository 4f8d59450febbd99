package desk

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/ui/flow/deeds"
)

// TestRevokeEndedTicket: a ticket that somebody else has ended is no failure; one that may not be ended is. What was
// done and what was not is on record.
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
	on, err := deeds.NewLog(w.Env).All()
	if err != nil || len(on) != 3 || !strings.HasPrefix(on[0].Note, "done: ") || !strings.Contains(on[1].Note, "failed: ") ||
		on[2].Note != "" {
		t.Errorf("on record: %+v, %v", on, err)
	}
}
