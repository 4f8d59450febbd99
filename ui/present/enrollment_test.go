package present

import (
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// TestReviewSummary: five lines say what an enrollment would do, with a lifetime and a signer that
// were asked for, and what comes next.
func TestReviewSummary(t *testing.T) {
	o := enrolling.Options{Name: "prod-hsm", Context: "prod", User: "jane", Groups: []string{"dev"},
		Expiration: 8 * time.Hour, SignerName: "example.org/mine"}
	for then, r := range map[string]enroll.Review{
		"somebody approves": {Options: o},
		"is approved":       {Options: o, Approved: true},
		"nt stops: ":        {Options: o, Approved: true, Refused: hsm.ErrOccupied},
	} {
		facts := ReviewSummary(r)
		if len(facts) != 5 || facts[0].Value != "jane, in dev; for 8 hours; signed by example.org/mine" ||
			!strings.Contains(facts[4].Value, then) {
			t.Errorf("%s: %+v", then, facts)
		}
	}
}

// TestApproval: only kubehsm compares a request with its ticket, so no other command is named then. The
// words stand on a line of their own.
func TestApproval(t *testing.T) {
	a := enrolling.Approval{Request: "r", Command: "kubehsm csr approve r", Words: "abandon zoo"}
	if got := ForApprover(a); got != "kubehsm csr approve r  # or: kubectl certificate approve r" {
		t.Error(got)
	}
	a.Command, a.Ticket = "kubehsm helpdesk approve r", true
	if got := Approval(a); len(got) != 4 || got[1] != a.Command || got[3] != a.Words {
		t.Errorf("%q", got)
	}
}
