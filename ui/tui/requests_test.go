package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// atRequests goes to the requests of the cluster.
func atRequests(r *rig) {
	atTokens(r)
	r.goTo("Requests")
	r.Sees("2 requests pending", "mallory", "jane")
}

// goTo presses the number of a screen of the top level.
func (r *rig) goTo(title string) {
	r.T.Helper()
	for i, s := range r.m.nav.sections {
		if s.title == title {
			r.Press(string(rune('1' + i)))
			return
		}
	}
	r.T.Fatalf("no screen is called %q", title)
}

// toLook opens the closer look at jane's request.
func toLook(r *rig) {
	atRequests(r)
	r.Press("down", "enter")
	r.Sees("Where the key lives", "Yubico PIV Root CA", "edit in namespace dev")
}

// TestApproveOwn: one's own is approved only where that is chosen, and never a
// request that takes a second person.
func TestApproveOwn(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	toLook(r)
	r.opens("a")
	r.Press("tab", "tab", "down", "enter")
	r.did(f, `decide kubehsm-jane-7x2kp approve=true own=true words="" message=""`)
	r.Press("x")
	r.Sees("kubehsm csr approve kubehsm-jane-7x2kp --own")
	f.set(func() { f.requests = []request.View{fakeRequest("jane", request.BreakGlassGroup)} })
	r.Press("esc", "r")
	r.Sees("kubehsm:break-glass")
	r.opens("a")
	if strings.Contains(r.View(), "If yours") {
		t.Errorf("break-glass without a second person:\n%s", r.View())
	}
}

// TestRefusals: what must not be approved cannot be, and says why; denying goes.
func TestRefusals(t *testing.T) {
	f := newFake()
	f.refusals = []string{"the ticket is for another card"}
	r := newRig(t, f, 100, 30)
	atRequests(r)
	r.Press("enter")
	r.Sees("allows everything in the cluster", "Nobody vouches for it", `Ticket for  the user "jane", in "dev"`)
	r.Press("a")
	r.Sees("approve: the ticket is for another card")
	r.Press("x")
	r.Sees("--accept-risk=mismatch")
	r.Press("esc")
	r.opens("d")
	r.Sees("Deny it, for good?")
}

// TestManyRequests: ten thousand come in, are filtered and walked.
func TestManyRequests(t *testing.T) {
	f := newFake()
	f.requests = manyRequests(10_000)
	r := newRig(t, f, 100, 30)
	atTokens(r)
	r.goTo("Requests")
	r.Sees("10000 requests pending")
	r.Press("/", `"user-98"`)
	r.Sees("111 requests of 10000")
	r.Press("esc", "G")
	r.Sees("user-9999")
}

// TestApprovedIsFollowed: the closer look tells when the certificate is there.
func TestApprovedIsFollowed(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	toLook(r)
	r.opens("d")
	r.Press("esc")
	f.set(func() { f.requests[1].State = "approved" })
	r.Press("r")
	r.Sees("State     approved")
	f.set(func() { f.requests[1].State = "issued" })
	r.Time = r.Time.Add(3 * time.Second)
	r.Send(pollMsg{})
	r.Sees("State     issued")
}
