//go:build linux

package scenarios

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

// TestJourneyHelpDesk: a ticket is made, shown once, and joined with in the
// terminal UI of the one it is for; another is taken back; and the glass is
// broken, with a second person's yes.
func TestJourneyHelpDesk(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	u.KeepSecret(t, u.secrets...)
	hannah := u.newDesk(unique("hannah"), "kubehsm:helpdesk")
	name := unique("jane")
	s := term.Run(t, term.Options{Path: u.Binary, Dir: u.Dir, Env: append(u.Env(), hannah.env...), Secrets: u.secrets,
		Columns: 120, Rows: 60})
	lab.AtTokens(s)
	s.Type("5")
	s.WaitFor("t new ticket")
	s.Type("t")
	s.WaitFor("A ticket for one person", "User", "Valid for")
	s.Press(term.Enter)
	s.WaitFor("✗ a user name is needed")
	s.Type(name)
	s.Press(term.Tab)
	s.Type(lab.DevelopersGroup)
	s.Press(term.Tab, term.Down)
	s.WaitFor("● 30 min")
	s.Press(term.Tab)
	s.Type("touch-sometimes")
	s.Press(term.Enter)
	s.WaitFor("✗ ")
	s.Press(term.CtrlU)
	s.Press(term.Enter)
	s.WaitFor("╭─ Ticket for "+name, "Valid for ", "once.", "They type: kubehsm join --ticket -", "▄▄▄▄▄")
	text := ticketOn(t, s.Frame())
	s.Press(term.Escape)
	s.WaitGone("╭─ Ticket for")

	// Jane joins with it, after a line that is none.
	jane := u.terminal(u.Binary)
	jane.WaitFor("Change: u user")
	jane.Type("o")
	jane.WaitFor("Which cluster is the key for?", "Join with a ticket")
	jane.Type("G")
	jane.Press(term.Enter)
	lab.Fill(jane, "╭─ Ticket", "ticket", "KHSM1-AAAAA-AAAAA-AAAAA")
	jane.WaitFor("✗ error: ", "hint: ")
	jane.Press(term.Escape)
	jane.WaitGone("✗ error: ")
	jane.Press(term.Enter)
	lab.Fill(jane, "╭─ Ticket", "ticket", text)
	jane.WaitFor("This is what will be done", "(ticket ", "Who      "+name+", in "+lab.DevelopersGroup)
	jane.Press(term.Enter)
	answerDialog(jane, lab.PIN)
	jane.WaitFor("waiting for somebody to approve")
	request, words := hannah.filed(name)
	jane.WaitFor("the key's words are:", strings.Fields(words)[0], "kubehsm helpdesk approve "+request)

	// The help desk has the words read out, and the ticket is over.
	s.Type("3")
	s.WaitFor("live")
	s.Type("/" + request)
	s.WaitFor("1 request of ")
	s.Press(term.Enter, term.Enter)
	s.WaitFor("What the certificate would allow", "In words", words)
	s.Type("a")
	s.WaitFor("Approve it?")
	s.Type(name)
	s.Press(term.Enter)
	s.WaitFor("that does not match: type the eight words")
	s.Press(term.CtrlU)
	s.Type("abandon ability able about above absent absorb abstract")
	s.Press(term.Enter)
	s.WaitGone("Type      " + name)
	s.WaitFor("that does not match: type the eight words")
	s.Press(term.CtrlU)
	s.Type(words)
	s.Press(term.Enter)
	s.WaitFor(request+": approved", "issued (")
	jane.WaitFor("Enrolled: authenticated as "+name, lab.DevelopersGroup)
	jane.Type("q")
	if code := jane.Exit(); code != 0 || !jane.Cooked() {
		t.Errorf("exit code %d", code)
	}
	s.Press(term.Escape)
	s.WaitFor("2 Contexts")
	s.Type("q")
	if code := s.Exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if out := u.admin("get", "secrets", "-n", "kube-system", "-o", "name"); strings.Contains(out, ticketID(t, text)) {
		t.Errorf("the ticket's token outlived the approval: %s", out)
	}
	if out := u.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != name {
		t.Errorf("kubectl is %q", out)
	}
	u.keptNowhere(text)
	u.keptNowhere(strings.ReplaceAll(text, "-", ""))
}

// TestJourneyTokensAndBreakGlass: bootstrap tokens are made, counted down and
// taken back; access is taken from somebody; and the glass is broken with a
// second person's yes.
func TestJourneyTokensAndBreakGlass(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{Groups: []string{"kubehsm:break-glass-requesters", lab.FilersGroup}})
	u.KeepSecret(t, u.secrets...)
	what := unique("laptops")
	s := u.screen("5", "--kubeconfig", u.Cluster.AdminKubeconfig())
	s.WaitFor("n new token")
	s.Type("n")
	s.WaitFor("A bootstrap token", "A ticket is safer")
	s.Type(what)
	s.Press(term.Tab, term.Down)
	s.WaitFor("● 30 min")
	s.Press(term.Enter)
	s.WaitFor("The token, which is shown once", "kubehsm join ", "discovery-token-ca-cert-hash")
	s.Press(term.Escape)
	s.WaitGone("The token, which is shown once")
	s.Type("/" + what)
	s.WaitFor("token", "29 min ", what)
	s.Press(term.Enter)
	s.Type("D")
	s.WaitFor("Delete token ", what, "▌ No")
	lab.Insist(s, string(term.Enter), "no is taken", lab.Shows("cancelled"))
	s.Type("D")
	s.WaitFor("Delete token ")
	lab.Insist(s, "y", "the yes is taken", lab.Shows("it is deleted"))
	s.WaitGone("29 min ")
	if out := u.admin("get", "secrets", "-n", "kube-system", "-o",
		"jsonpath={.items[*].data.description}"); strings.Contains(out, base64.StdEncoding.EncodeToString([]byte(what))) {
		t.Errorf("the token is there: %s", out)
	}
	if s.Frame().Contains("/ " + what) { // kept, unless it was the last one
		s.Press(term.Escape)
		s.WaitGone("/ " + what)
	}
	lost, binding := unique("lost"), unique("lost")
	u.admin("create", "clusterrolebinding", binding, "--clusterrole=view", "--user="+lost)
	s.Type("W")
	s.WaitFor("Revoke access", "can read until they expire")
	s.Press(term.Enter)
	s.WaitFor("✗ a user name is needed")
	s.Type(lost)
	s.Press(term.Enter)
	s.WaitFor("Remove, deny and end these?", binding, "▌ No")
	lab.Insist(s, "y", "the yes is taken", lab.Shows("Result for the access of "+lost))
	if left := u.admin("get", "clusterrolebindings", "-o", "name"); strings.Contains(left, binding) {
		t.Errorf("bindings left: %s", left)
	}
	s.Press(term.CtrlC)
	s.Exit()

	reason := unique("the API is down")
	s = u.screen("5")
	s.Type("B")
	s.WaitFor("Request emergency access?", "person approves it")
	s.Press(term.Enter)
	s.WaitFor("✗ a reason is needed")
	s.Type(reason)
	s.Press(term.Enter)
	answerDialog(s, lab.PIN)
	s.WaitFor("waiting for somebody to approve")
	bob := u.newDesk(unique("bob"), "kubehsm:break-glass-approvers")
	b := term.Run(t, term.Options{Path: u.Binary, Dir: u.Dir, Env: append(u.Env(), bob.env...), Secrets: u.secrets,
		Columns: 120, Rows: 40})
	lab.AtTokens(b)
	b.Type("3")
	b.WaitFor("live")
	var request string // by its name: others ask for the same group meanwhile
	for line := range strings.Lines(u.admin("get", "csr", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.metadata.annotations}{"\n"}{end}`)) {
		if name, notes, _ := strings.Cut(line, " "); strings.Contains(notes, reason) {
			request = name
		}
	}
	b.Type("/" + request)
	b.WaitFor("1 request of ", "kubehsm:break-glass")
	b.Press(term.Enter, term.Enter)
	b.WaitFor("What the certificate would allow", reason)
	b.Type("a")
	b.WaitFor("Approve it?")
	b.Type(strings.Join(u.shown(request).Words, " "))
	b.Press(term.Enter)
	b.WaitFor("approved")
	b.Press(term.Escape)
	b.WaitFor("2 Contexts")
	b.Type("q")
	b.Exit()
	s.WaitFor("may do everything", "Until ")
	s.Press(term.Escape)
	s.WaitGone("may do everything")
	s.WaitFor("break-glass: ", ", live")
	s.Type("q")
	if code := s.Exit(); code != 0 || !s.Cooked() {
		t.Errorf("exit code %d", code)
	}
	if out := u.kubectl("--context", lab.Context+"-break-glass", "auth", "can-i", "*",
		"*"); strings.TrimSpace(out) != "yes" {
		t.Errorf("can do everything: %s", out)
	}
	if out := u.kubectl("config", "current-context"); strings.TrimSpace(out) != lab.Context {
		t.Errorf("the current context is %q", out)
	}
}

// ticketID is the ID of a ticket's token.
func ticketID(t *testing.T, text string) string {
	t.Helper()
	k, err := ticket.Parse([]byte(text))
	must(t, err)
	defer k.Wipe()
	return k.Token.ID()
}

// ticketOn reads the ticket off the dialog that shows it.
func ticketOn(t *testing.T, f term.Frame) string {
	t.Helper()
	_, text, ok := strings.Cut(f.Text(), "KHSM1-")
	text, _, end := strings.Cut(text, "█")
	if !ok || !end {
		t.Fatalf("no ticket on\n%s", f.Text())
	}
	keep := func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}
	return "KHSM1-" + strings.Map(keep, text)
}
