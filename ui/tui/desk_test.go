package tui

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/deeds"
)

func atDesk(r *rig) {
	atTokens(r)
	r.goTo("Help desk")
	r.Sees("jane, dev", "for the new rack", "sealed: safe")
}

// TestTicket is shown as a code and as text, once, and is not for copying.
func TestTicket(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 50)
	atDesk(r)
	r.opens("t")
	r.Press("enter")
	r.Sees("a user name is needed")
	r.Press(`"jane"`, "tab", `"dev, ops"`, "tab", "tab", `"attested"`, "enter")
	r.did(f, `ticket for jane in [dev ops], attested, serial "", as `)
	r.Sees("KHSM1-ABCDE", "Good for 4 h 00 min", "▄▄")
	r.Press("c")
	if strings.Contains(r.View(), "copied") {
		t.Error("a secret was copied")
	}
	r.Press("esc", "x")
	r.Sees("kubehsm helpdesk ticket --for jane --group dev --group ops")
	if strings.Contains(r.View(), "KHSM1") {
		t.Error("the ticket is still there")
	}
}

func TestDeskDeeds(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atDesk(r)
	r.opens("D")
	r.Sees("Delete ticket abcdef?")
	r.Press("y")
	r.did(f, "delete token abcdef")
	r.opens("n")
	r.Press(`"for jane"`, "enter")
	r.did(f, `token "for jane"`)
	r.Sees("aaaaaa.0123456789abcdef", "kubehsm join")
	r.Press("esc")
	r.opens("b")
	r.Press("enter")
	r.Sees("a reason is needed")
	r.Press(`"INC-1"`, "enter")
	r.Sees("PIN of trial")
	r.Press(`"648219"`, "enter")
	r.did(f, "broke the glass as prod-break-glass: INC-1")
	r.Sees("may do everything")
}

// TestSpareTicket: two tickets, one after the other, each shown once. The first
// is shown even if there is no second.
func TestSpareTicket(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 50)
	atDesk(r)
	ask := func() {
		r.opens("t")
		r.Press(`"jane"`, "tab", "tab", "tab", "tab", "tab", `"prod"`, "tab", "tab", "down", "enter")
	}
	ask()
	r.did(f, `ticket for jane in [], , serial "", as prod`)
	r.did(f, `ticket for jane in [], , serial "", as prod-spare`)
	r.Sees("Ticket for jane", "the next one; this is not shown again")
	r.Press("esc")
	r.Sees("Spare ticket for jane", "close; it is not shown again")
	r.Press("esc", "x")
	r.Sees("--name prod --spare -o qr")
	r.Press("esc")
	f.set(func() { f.spareErr = errors.New("the quota is exceeded") })
	ask()
	r.Sees("Ticket for jane")
	r.Press("esc")
	r.Sees("error: the quota is exceeded")
}

// TestDeskOfARole: who may not list a cluster's tokens, as in kubehsm's own role,
// sees the tickets of the record, but for those that have ended.
func TestDeskOfARole(t *testing.T) {
	f := newFake()
	f.deskErr = hint.With(bootstraptoken.ErrForbidden, "it needs the verb list")
	deed := func(id, user string, left time.Duration) deeds.Deed {
		until := fakeNow().Add(left)
		return deeds.Deed{Action: "ticket", Ticket: id, Terms: &ticket.Terms{User: user}, User: user, Expires: &until}
	}
	f.tickets = []deeds.Deed{deed("aaaaaa", "jane", time.Hour), deed("bbbbbb", "kim", -time.Minute), deed("cccccc", "lee", time.Hour),
		{Action: "approve", Ticket: "cccccc"}, deed("dddddd", "max", 2*time.Hour), {Action: "deny", Ticket: "dddddd"}}
	r := newRig(t, f, 80, 24)
	atTokens(r)
	r.goTo("Help desk")
	r.Sees("Only tickets that were made from here", "aaaaaa", "jane", "1 h 00 min")
	for _, not := range []string{"error", "bbbbbb", "cccccc", "dddddd"} {
		if strings.Contains(r.View(), not) {
			t.Errorf("it holds %q:\n%s", not, r.View())
		}
	}
}
