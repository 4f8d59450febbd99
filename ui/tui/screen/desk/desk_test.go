package desk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

// token is a bootstrap token as the cluster keeps it.
func token(id, description string, left time.Duration) flowtest.Object {
	data := map[string][]byte{"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"),
		"description":             []byte(description),
		"usage-bootstrap-signing": []byte("true"), "usage-bootstrap-authentication": []byte("true")}
	if left > 0 {
		data["expiration"] = []byte(tuitest.Now().Add(left).Format(time.RFC3339))
	}
	return flowtest.Object{"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
		"metadata": flowtest.Object{"name": "bootstrap-token-" + id, "namespace": "kube-system"}, "data": data}
}

// open shows the desk of a cluster with two tokens.
func open(t *testing.T) (*screentest.Rig, *flowtest.Server) {
	t.Helper()
	w := screentest.New(t)
	server := w.Cluster("admin", "system:masters")
	server.Put(flowtest.Secrets, token("abcdef", "for the new rack", 4*time.Minute))
	server.Put(flowtest.Secrets, token("old000", "nobody knows", 0))
	w.Tokens.Add(hsmtest.FakeOptions{Label: "blue"})
	r := w.Open("")
	r.Sees("blue")
	r.Press("5")
	r.Sees("for the new rack", "nobody knows")
	return r, server
}

// TestCountsDown: how long a token is good is told by the clock.
func TestCountsDown(t *testing.T) {
	r, _ := open(t)
	r.Sees("4 min 00 s", "forever")
	r.Time = r.Time.Add(10 * time.Second)
	r.Sees("3 min 50 s")
}

// TestTokens: one is made, shown once, and removed after a yes.
func TestTokens(t *testing.T) {
	r, server := open(t)
	r.Press("n")
	r.Sees("A bootstrap token")
	r.Press(`"for jane"`, "enter")
	r.Sees("kubehsm join")
	names := server.Names(flowtest.Secrets)
	if len(names) != 3 {
		t.Fatalf("there are %q", names)
	}
	r.Press("esc")
	r.Sees("for jane")
	r.Press("/", `"rack"`, "enter", "D")
	r.Sees("Delete")
	r.Press("n")
	r.Sees("cancelled")
	r.Press("D")
	r.Sees("abcdef?")
	r.Press("y")
	r.Until("deleted", func() bool { return len(server.Names(flowtest.Secrets)) == 2 })
	r.Loses("for the new rack")
}

// allTheSame makes a ticket that cannot work, as the cluster shows no cluster-info.
func allTheSame(r *screentest.Rig) {
	r.T.Helper()
	r.Sees("Make the ticket anyway?", "It would not work yet", "cluster-info")
	r.Press("y")
}

// TestTicket is shown as text, once, and can be copied and saved; the cluster keeps who it
// is for. A ticket that could not work is not made without a yes.
func TestTicket(t *testing.T) {
	r, server := open(t)
	r.Press("t")
	r.Sees("User")
	r.Press("enter")
	r.Sees("a user name is needed")
	r.Press(`"jane"`, "tab", `"dev, ops"`, "enter")
	r.Sees("Make the ticket anyway?")
	r.Press("n")
	r.Sees("Make a ticket: cancelled")
	if n := len(server.Names(flowtest.Secrets)); n != 2 {
		t.Errorf("%d tokens", n)
	}
	r.Press("t")
	r.Sees("A ticket for one person")
	r.Press(`"jane"`, "tab", `"dev, ops"`, "enter")
	allTheSame(r)
	r.Sees("KHSM1-", "Valid for", "They type: kubehsm join --ticket -", "You then: kubehsm helpdesk approve REQUEST")
	r.Press("c")
	r.Until("copied", func() bool { return strings.HasPrefix(r.Copied(), "KHSM1-") })
	file := filepath.Join(t.TempDir(), "ticket.txt")
	for range 2 { // the second time the file is there
		r.Press("o")
		r.Sees("Save the ticket")
		r.Press(`"`+file+`"`, "enter")
	}
	r.Sees("exists already")
	r.Press("esc")
	r.Loses("Save the ticket")
	if saved, err := os.ReadFile(file); err != nil || string(saved) != r.Copied()+"\n" {
		t.Errorf("saved %q, %v", saved, err)
	}
	if n := len(server.Names(flowtest.Secrets)); n != 3 {
		t.Errorf("%d tokens", n)
	}
	r.Press("esc")
	r.Loses("KHSM1-")
	r.Sees("ticket", "jane, dev, ops")
	r.Press("x")
	r.Sees("kubehsm helpdesk ticket --for jane --group dev --group ops")
	r.Press("esc", "H")
	r.Sees("What was done from here, latest first", "jane", "until")
}

// TestOfARole: who may not list a cluster's tokens sees the tickets that were made
// from here.
func TestOfARole(t *testing.T) {
	r, server := open(t)
	r.Press("t")
	r.Sees("User")
	r.Press(`"jane"`, "enter")
	allTheSame(r)
	r.Sees("KHSM1-")
	r.Press("esc")
	server.Forbid("list secrets")
	r.Press("r")
	r.Sees("Only tickets that were made from here", "jane")
	if strings.Contains(r.View(), "for the new rack") {
		t.Errorf("what may not be listed is shown:\n%s", r.View())
	}
}

// TestRefused: a ticket that the cluster does not make is not shown, and why.
func TestRefused(t *testing.T) {
	r, server := open(t)
	server.Forbid("create secrets")
	r.Press("t")
	r.Sees("User")
	r.Press(`"jane"`, "enter")
	allTheSame(r)
	r.Sees("error: ", "hint: ")
	if strings.Contains(r.View(), "KHSM1-") || len(server.Names(flowtest.Secrets)) != 2 {
		t.Errorf("a ticket was made:\n%s", r.View())
	}
}

// TestGone: a cluster that is not there is said so, with what to do.
func TestGone(t *testing.T) {
	w := screentest.New(t)
	r := w.Open("5")
	r.Sees("error: ", "hint: ")
	server := w.Cluster("admin")
	server.Put(flowtest.Secrets, token("abcdef", "for the new rack", time.Minute))
	r.Press("r")
	r.Sees("for the new rack")
}

// TestRoles: what is missing is named, shown before it is applied, and applied.
func TestRoles(t *testing.T) {
	r, server := open(t)
	const roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	r.Press("o")
	r.Sees("show them, to copy")
	r.Press("enter")
	r.Sees("missing  ticket      ClusterRole kubehsm:ticket", "you may make tickets")
	r.Press("esc", "o")
	r.Sees("show them, to copy")
	r.Press("down", "enter")
	r.Sees("Apply these?", "missing, ticket, ClusterRole")
	r.Press("n")
	r.Sees("cancelled")
	if n := len(server.Names(roles)); n != 0 {
		t.Fatalf("%d roles were made", n)
	}
	r.Press("o")
	r.Sees("show them, to copy")
	r.Press("down", "enter")
	r.Sees("Apply these?")
	r.Press("y")
	r.Sees("applied  ticket      ClusterRole kubehsm:ticket")
	if n := len(server.Names(roles)); n == 0 {
		t.Error("no role was made")
	}
	r.Press("esc", "o")
	r.Sees("show them, to copy")
	r.Press(`"show"`, "enter")
	r.Sees("kind: ClusterRole", "copy manifest")
}

// TestTicketsCanWork: what tickets need is tested with a token, which is gone afterwards, and published after a yes.
func TestTicketsCanWork(t *testing.T) {
	r, server := open(t)
	const maps = "/api/v1/namespaces/kube-public/configmaps"
	tokens := len(server.Names(flowtest.Secrets))
	r.Press("o")
	r.Sees("show them, to copy")
	r.Press(`"test"`, "enter")
	r.Sees("missing  ticket      ClusterRole kubehsm:ticket", "you may make tickets")
	if n := len(server.Names(flowtest.Secrets)); n != tokens || !slices.Contains(server.Asked(), "create secrets") {
		t.Errorf("%d tokens, %d before, asked %q", n, tokens, server.Asked())
	}
	r.Press("esc", "o")
	r.Sees("show them, to copy")
	r.Press(`"publish"`, "enter")
	r.Sees("Apply these?", "cluster-info")
	if names := server.Names(maps); len(names) != 0 {
		t.Fatalf("published without a yes: %q", names)
	}
	r.Press("y")
	r.Sees("applied  cluster-info")
	if names := server.Names(maps); len(names) != 1 {
		t.Errorf("published: %q", names)
	}
}

// TestRevokeCertificate: one certificate is revoked by its hash or its file, listed and lifted.
func TestRevokeCertificate(t *testing.T) {
	r, server := open(t)
	hash := strings.Repeat("ab", 32)
	r.Press("W")
	r.Sees("User")
	r.Press("tab", "tab", `"beef"`, "enter")
	r.Sees("neither the SHA-256 of a certificate nor a file")
	r.Press("esc", "W")
	r.Sees("User")
	r.Press("tab", "tab", "tab", `"piv:slot=9a"`, "enter")
	r.Sees("has no serial number")
	r.Press("esc", "W")
	r.Sees("User")
	r.Press("tab", "tab", `"`+hash+`"`, "tab", "tab", `"lost in a train"`, "enter")
	r.Sees("Revoke these?", "What it does")
	r.Press("y")
	r.Sees("The certificates are revoked", "enforces it")
	server.File("joe", "joe", "joe", nil, nil)
	server.Issue("joe")
	file := filepath.Join(t.TempDir(), "joe.pem")
	if err := os.WriteFile(file, server.Issued("joe"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Press("esc", "W")
	r.Sees("User")
	r.Press(`"joe"`, "tab", "tab", `"`+file+`"`, "enter")
	r.Sees("leave it empty with a certificate's file")
	r.Press("esc", "W")
	r.Sees("User")
	r.Press("tab", "tab", `"`+file+`"`, "enter")
	r.Sees("Revoke these?", `of "joe"`)
	r.Press("y")
	r.Sees("The certificates are revoked")
	r.Press("esc", "C")
	r.Sees("Revoked certificates", "lift a revocation")
	r.Press(`"show"`, "enter")
	r.Sees(hash[:16], "lost in a train")
	r.Press("esc", "C")
	r.Sees("lift a revocation")
	r.Press(`"never"`, "enter")
	r.Sees("All policies are written anew")
	r.Press(`"kubehsm:rescue"`, "enter")
	r.Sees("The policies are written")
	r.Press("esc", "C")
	r.Sees("lift a revocation")
	r.Press(`"never"`, "enter")
	r.Sees("All policies are written anew", "kubehsm:rescue") // as it was chosen
	r.Press("esc")
	lift := func() {
		r.Press("esc", "C")
		r.Sees("lift a revocation")
		r.Press(`"lift"`, "enter")
		r.Sees("The certificate writes again")
	}
	lift()
	r.Press("enter")
	r.Sees("it is needed")
	r.Press(`"abab"`, "enter")
	r.Sees("Lift the revocation?", "lost in a train")
	r.Press("y")
	r.Sees("The revocation is lifted")
	lift()
	r.Press(`"abab"`, "enter")
	r.Sees("is none of the revoked certificates")
}

// TestRevoke: what gives access is shown, and taken away after a yes.
func TestRevoke(t *testing.T) {
	r, server := open(t)
	const bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/dev/rolebindings"
	server.Put(bindings, flowtest.Object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
		"metadata": flowtest.Object{"name": "jane-edit", "namespace": "dev"},
		"roleRef":  flowtest.Object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
		"subjects": []flowtest.Object{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}}})
	r.Press("W")
	r.Sees("User")
	r.Press("enter")
	r.Sees("a user name is needed")
	r.Press(`"jane"`, "enter")
	r.Sees("Remove, deny and end these?", "rolebinding jane-edit in dev: ClusterRole edit")
	r.Press("enter") // the focus is on no
	r.Sees("Revoke access: cancelled")
	if n := len(server.Names(bindings)); n != 1 {
		t.Fatalf("%d bindings", n)
	}
	take := func() {
		r.Press("W")
		r.Sees("User")
		r.Press(`"jane"`, "enter")
		r.Sees("Remove, deny and end these?")
		r.Press("y")
	}
	server.Forbid("delete rolebindings")
	take()
	r.Sees("failed: rolebinding jane-edit in dev")
	r.Press("esc")
	server.Allow("delete rolebindings")
	take()
	r.Sees("done: rolebinding jane-edit in dev")
	if n := len(server.Names(bindings)); n != 0 {
		t.Errorf("%d bindings", n)
	}
	server.File("root", "jane", "jane", []string{"system:masters"}, nil)
	server.Issue("root")
	for _, c := range []struct{ answer, asks, ends string }{
		{"n", "not revoked: the certificate", "failed: the certificate"},
		{"y", "kept from writing", "revoked"},
	} {
		r.Press("esc", "W")
		r.Sees("User")
		r.Press(`"jane"`, "enter")
		r.Sees("Revoke anyway?", "is in system:masters")
		r.Press(c.answer)
		r.Sees(c.asks)
		r.Press("y")
		r.Sees("Result for the access of jane", c.ends)
	}
}

// TestBreakGlass wants a reason, and asks nobody for a PIN before.
func TestBreakGlass(t *testing.T) {
	r, server := open(t)
	r.Press("B")
	r.Sees("Reason")
	r.Press("enter")
	r.Sees("a reason is needed")
	if n := len(server.Names(flowtest.Requests)); n != 0 || strings.Contains(r.View(), "PIN of") {
		t.Errorf("%d requests:\n%s", n, r.View())
	}
}

// TestReadOnly refuses what changes something.
func TestReadOnly(t *testing.T) {
	w := screentest.New(t)
	server := w.Cluster("admin")
	server.Put(flowtest.Secrets, token("abcdef", "for the new rack", time.Minute))
	r := w.OpenReadOnly("5")
	r.Sees("for the new rack")
	for key, says := range map[string]string{"t": "new ticket", "D": "delete", "W": "revoke access"} {
		r.Press(key)
		r.Sees(fmt.Sprintf("%s: read-only mode", says))
	}
}

// TestSpareTicket: two tickets are made, one after the other, and each is shown once. The
// first is shown even if the second fails.
func TestSpareTicket(t *testing.T) {
	r, server := open(t)
	ask := func(serial ...string) {
		r.Press("t")
		r.Sees("A ticket for one person")
		r.Press(`"jane"`, "tab", "tab", "tab", "tab")
		r.Press(serial...)
		r.Press("tab", `"prod"`, "tab", "tab", "down", "enter")
	}
	ask(`"7"`)
	r.Sees("the spare's ticket cannot name token 7 too")
	r.Press("esc")
	ask()
	allTheSame(r)
	r.Sees("Ticket for jane", "the next one; this is not shown again")
	if n := len(server.Names(flowtest.Secrets)); n != 4 {
		t.Errorf("%d tokens", n)
	}
	r.Press("esc")
	r.Sees("Spare ticket for jane", "close; it is not shown again")
	r.Press("esc", "x")
	r.Sees("--name prod --spare -o qr")
	r.Press("esc")
	r.Loses("--spare")
}

// TestSeal: a token for the safe is enrolled, once all that is needed was given.
func TestSeal(t *testing.T) {
	r, server := open(t)
	r.World.Agent()
	r.Press("s")
	r.Sees("A token for the safe", "blue")
	r.Press("enter")
	r.Sees("it is needed")
	r.Press(`"sealed-1"`, "tab", `"safe in room 12"`, "enter")
	r.Type("PIN of blue", "123456")
	r.Until("filed", func() bool { return len(server.Names(flowtest.Requests)) == 1 })
	server.Issue(server.Names(flowtest.Requests)[0])
	r.Sees("context trial-admin-sealed")
	r.Press("esc")
	r.Sees("sealed: ")
}

// TestSealNeedsAToken: without a token nothing can be sealed.
func TestSealNeedsAToken(t *testing.T) {
	w := screentest.New(t)
	w.Cluster("admin")
	r := w.Open("5")
	r.Sees("There is no ticket")
	r.Press("s")
	r.Sees("seal a token: insert the one that goes into the safe")
}

// TestVerifyAttestation: the verdict says in capitals that an attestation is not verified.
func TestVerifyAttestation(t *testing.T) {
	r, _ := open(t)
	path := filepath.Join(t.TempDir(), "a.pem")
	if err := os.WriteFile(path, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Press("v")
	r.Sees("Against Yubico's published roots.")
	r.Press("enter")
	r.Sees("name a file")
	r.Press(`"`+path+`"`, "enter")
	r.Sees("It is NOT verified", "no PEM certificate")
	r.Press("esc", "v")
	r.Sees("Against Yubico's published roots.")
	r.Press(`"`+path+`x"`, "enter")
	r.Sees("error: ", "no such file")
}

// TestOpenSealed: a PUK that was sealed for a ticket of this desk is shown once.
func TestOpenSealed(t *testing.T) {
	r, _ := open(t)
	made, err := desk.NewTickets(r.World.Env).Make(t.Context(), "",
		desk.TicketOptions{Terms: ticket.Terms{User: "kim"}, TTL: time.Hour, Seal: true})
	if err != nil {
		t.Fatal(err)
	}
	tk, err := ticket.Parse([]byte(made.Text))
	if err != nil {
		t.Fatal(err)
	}
	id := tk.Token.ID()
	sealed, err := tk.SealTo([]byte("73519264"), ticket.PUKInfo(id, "12345678"))
	if err != nil {
		t.Fatal(err)
	}
	r.Press("r", "/", `"kim"`, "enter")
	r.Sees(id)
	r.Press("p")
	r.Sees("Open a sealed PUK", id) // the ticket under the cursor
	r.Press("tab", `"12345678"`, "tab", `"`+sealed+`"`, "enter")
	r.Sees("The PUK of the token 12345678, which is not shown again:", "73519264")
	r.Press("y")
	r.Sees("the PUK was shown")
	if strings.Contains(r.View(), "73519264") {
		t.Error("the PUK is still there")
	}
}
