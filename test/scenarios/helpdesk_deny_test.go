//go:build linux

package scenarios

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// TestDenialEndsTheTicket: who was denied cannot file another request with the
// same ticket, unless the desk leaves it.
func TestDenialEndsTheTicket(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	desk := u.newDesk(unique("hannah"), "kubehsm:helpdesk")
	there := func(id string) bool {
		return strings.Contains(u.admin("get", "secrets", "-n", "kube-system", "-o", "name"), "bootstrap-token-"+id)
	}
	name := unique("jane")
	file, id, text := desk.ticket("--for", name, "--group", lab.DevelopersGroup, "--name", joined)
	join := func() (exit func() (int, string)) {
		s := u.terminal(u.Binary, "join", "--ticket", file, "--yes")
		s.Answer(pinPrompt, lab.PIN)
		s.WaitFor("waiting for somebody to approve")
		return func() (int, string) { return s.Exit(), s.Output() }
	}

	exit := join()
	request, _ := desk.filed(name)
	denied := parse[struct {
		Name, State string
		TicketEnded bool
	}](t, desk.ok("csr", "deny", request, "--keep-ticket", "--message", "the other token", "--yes", "-o", "json"))
	if denied.Name != request || denied.State != "denied" || denied.TicketEnded || !there(id) {
		t.Errorf("--keep-ticket: %+v", denied)
	}
	if code, screen := exit(); code != 1 || !strings.Contains(screen, "the other token") {
		t.Errorf("exit code %d:\n%s", code, screen)
	}

	exit = join()
	second, _ := desk.filed(name)
	if second == request {
		t.Fatalf("still %s", request)
	}
	if out := desk.ok("csr", "deny", second, "--message", "who is this?", "--yes"); !strings.Contains(out,
		"Its ticket is ended") {
		t.Errorf("deny: %s", out)
	}
	if there(id) {
		t.Error("the ticket is not ended")
	}
	if code, screen := exit(); code != 1 || !strings.Contains(screen, "who is this?") {
		t.Errorf("exit code %d:\n%s", code, screen)
	}
	u.refused(text)
	res := u.ran(u.Kubehsm(t.Context(), "join", "--ticket", file, "--yes"))
	if res.Code != 1 {
		t.Errorf("with a ticket that is ended: %s", res)
	}
}
