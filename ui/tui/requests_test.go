package tui

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
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

func TestRequestsFollowTheCluster(t *testing.T) {
	f := newFake()
	f.changes = make(chan request.Event)
	r := newRig(t, f, 100, 30)
	atRequests(r)
	r.Press("down") // on jane
	late := fakeRequest("late", "dev")
	late.Created = fakeNow()
	f.changes <- request.Event{Type: "ADDED", Request: late}
	r.Sees("3 requests pending", "late")
	gone := fakeRequest("mallory")
	f.changes <- request.Event{Type: "DELETED", Request: gone}
	r.Sees("2 requests pending")
	decided := late
	decided.State = "denied"
	f.changes <- request.Event{Type: "MODIFIED", Request: decided}
	r.Sees("1 request pending")
	r.Press("enter")
	r.Sees("kubehsm-jane-7x2kp", "Where the key lives") // the cursor stayed on jane
}

func TestApprove(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	toLook(r)
	r.opens("a")
	r.Sees("Approve it?", "jane in dev")
	r.Press(`"abandon ability zebra"`, "enter")
	r.Sees("not the words of this key")
	r.Press("ctrl+u", `"Abandon, ability able about above absent absorb abstract"`, "tab", `"asked on the phone"`, "enter")
	r.did(f, `decide kubehsm-jane-7x2kp approve=true own=false words="Abandon, ability able about above absent absorb abstract" message="asked on the phone"`)
	r.Sees("kubehsm-jane-7x2kp: approved", "State     approved")
	r.Press("a")
	r.Sees("approve: it is approved")
}

func TestDeny(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	toLook(r)
	r.opens("d")
	r.Sees("Deny it, for good?")
	r.Press("esc")
	r.opens("d")
	r.Press("enter")
	r.did(f, `decide kubehsm-jane-7x2kp approve=false own=false words="" message=""`)
}

// TestOwnIsRefused: what the use case refuses stays on the screen with its hint.
func TestOwnIsRefused(t *testing.T) {
	f := newFake()
	f.deedErr = hsm.WithHint(errors.New("request kubehsm-jane-7x2kp is your own (jane)"), "let somebody else look at it")
	r := newRig(t, f, 100, 30)
	toLook(r)
	r.opens("a")
	r.Press("enter")
	r.Sees("error: request kubehsm-jane-7x2kp is your own", "hint: let somebody else")
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

func TestMine(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atRequests(r)
	r.Press("D")
	r.Sees("take back: only what was filed from here")
	r.Press("a")
	r.Sees("3 requests in all", "issued")
	r.Press("a")
	r.Sees("3 requests filed from here", "gone")
	r.opens("D")
	r.Sees("Take kubehsm-jane-7x2kp back?")
	r.Press("enter") // the focus is on no
	r.Sees("Take the request back: cancelled")
	r.opens("D")
	r.Press("y")
	r.did(f, "cancel kubehsm-jane-7x2kp")
}

func TestRequestsFail(t *testing.T) {
	f := newFake()
	f.requestsErr = hsm.WithHint(errors.New("connection refused"), "is the cluster up?")
	r := newRig(t, f, 80, 24)
	atTokens(r)
	r.goTo("Requests")
	r.Sees("error: connection refused", "hint: is the cluster up?", "r tries again")
	f.set(func() { f.requestsErr = nil })
	r.Press("r")
	r.Sees("2 requests pending")
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

// TestSectionsGoOn: a screen that is not in front goes on.
func TestSectionsGoOn(t *testing.T) {
	f := newFake()
	f.changes = make(chan request.Event)
	r := newRig(t, f, 100, 30)
	atRequests(r)
	r.Press("1")
	r.Sees("SLOT")
	late := fakeRequest("late")
	late.Created = fakeNow().Add(time.Second)
	f.changes <- request.Event{Type: "ADDED", Request: late}
	r.Sees("SLOT", "late asks for a certificate for late")
	r.goTo("Requests")
	r.Sees("late")
	r.Press("esc")
	r.Sees("SLOT")
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

// TestForbidden: who may not list sees what was filed from here, and the role to
// ask for.
func TestForbidden(t *testing.T) {
	f := newFake()
	f.requestsErr = &csr.ForbiddenError{Op: "list requests", User: "jane", Missing: []csr.Rule{{Verb: "list"}}, Rules: []csr.Rule{{Verb: "list"}}, Err: errors.New("forbidden")}
	r := newRig(t, f, 100, 40)
	atTokens(r)
	r.goTo("Requests")
	r.Sees("You may not list the requests", "3 requests filed from here", "gone")
	r.Press("o")
	r.Sees("The role to ask for", "kubectl", "c copy role")
	r.Press("c")
	r.Sees("role copied")
}
