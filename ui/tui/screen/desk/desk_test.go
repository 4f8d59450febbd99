package desk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
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
	r.Walk("~blue", "5", "~for the new rack", "~nobody knows")
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
	r.Walk("n", "~A bootstrap token", `"for jane"`, "enter", "~kubehsm join")
	names := server.Names(flowtest.Secrets)
	if len(names) != 3 {
		t.Fatalf("there are %q", names)
	}
	r.Walk("esc", "~for jane", "/", `"rack"`, "enter", "D", "~Delete", "n", "~cancelled", "D", "~abcdef?", "y")
	r.Until("deleted", func() bool { return len(server.Names(flowtest.Secrets)) == 2 })
	r.Loses("for the new rack")
}

// allTheSame makes a ticket that cannot work, as the cluster shows no cluster-info.
func allTheSame(r *screentest.Rig) {
	r.T.Helper()
	r.Walk("~Make the ticket anyway?", "~It would not work yet", "~cluster-info", "y")
}

// TestTicket is shown as text, once, and can be copied and saved; the cluster keeps who it
// is for. A ticket that could not work is not made without a yes.
func TestTicket(t *testing.T) {
	r, server := open(t)
	r.Walk("t", "~User", "enter", "~a user name is needed", `"jane"`, "tab", `"dev, ops"`, "enter",
		"~Make the ticket anyway?", "n", "~Make a ticket: cancelled")
	if n := len(server.Names(flowtest.Secrets)); n != 2 {
		t.Errorf("%d tokens", n)
	}
	r.Walk("t", "~A ticket for one person", `"jane"`, "tab", `"dev, ops"`, "enter")
	allTheSame(r)
	r.Sees("KHSM1-", "Valid for", "They type: kubehsm join --ticket -", "You then: kubehsm helpdesk approve REQUEST")
	r.Press("c")
	r.Until("copied", func() bool { return strings.HasPrefix(r.Copied(), "KHSM1-") })
	file := filepath.Join(t.TempDir(), "ticket.txt")
	for range 2 { // the second time the file is there
		r.Walk("o", "~Save the ticket", `"`+file+`"`, "enter")
	}
	r.Walk("~exists already", "esc")
	r.Loses("Save the ticket")
	if saved, err := os.ReadFile(file); err != nil || string(saved) != r.Copied()+"\n" {
		t.Errorf("saved %q, %v", saved, err)
	}
	if n := len(server.Names(flowtest.Secrets)); n != 3 {
		t.Errorf("%d tokens", n)
	}
	r.Press("esc")
	r.Loses("KHSM1-")
	r.Walk("~ticket", "~jane, dev, ops", "x", "~kubehsm helpdesk ticket --for jane --group dev --group ops")
}

// TestOfARole: who may not list a cluster's tokens is told so, and makes tickets.
func TestOfARole(t *testing.T) {
	r, server := open(t)
	r.Walk("t", "~User", `"jane"`, "enter")
	allTheSame(r)
	r.Walk("~KHSM1-", "esc")
	server.Forbid("list secrets")
	r.Walk("r", "~You may not list the cluster's tickets")
	if strings.Contains(r.View(), "for the new rack") {
		t.Errorf("what may not be listed is shown:\n%s", r.View())
	}
}

// TestRefused: a ticket that the cluster does not make is not shown, and why.
func TestRefused(t *testing.T) {
	r, server := open(t)
	server.Forbid("create secrets")
	r.Walk("t", "~User", `"jane"`, "enter")
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
	r.Walk("r", "~for the new rack")
}

// TestRevokeCertificate: one certificate is revoked by its hash or its file, listed and lifted.
func TestRevokeCertificate(t *testing.T) {
	r, server := open(t)
	hash := strings.Repeat("ab", 32)
	r.Walk("W", "~User", "tab", "tab", `"beef"`, "enter", "~neither the SHA-256 of a certificate nor a file", "esc",
		"W", "~User", "tab", "tab", "tab", `"piv:slot=9a"`, "enter", "~has no serial number", "esc", "W", "~User",
		"tab", "tab", `"`+hash+`"`, "tab", "tab", `"lost in a train"`, "enter", "~Revoke these?", "~What it does",
		"y", "~The certificates are revoked", "~enforces it")
	server.File("joe", "joe", "joe", nil, nil)
	server.Issue("joe")
	file := filepath.Join(t.TempDir(), "joe.pem")
	must.OK(t, os.WriteFile(file, server.Issued("joe"), 0o600))
	r.Walk("esc", "W", "~User", `"joe"`, "tab", "tab", `"`+file+`"`, "enter",
		"~leave it empty with a certificate's file", "esc", "W", "~User", "tab", "tab", `"`+file+`"`, "enter",
		"~Revoke these?", `~of "joe"`, "y", "~The certificates are revoked", "esc", "C", "~Revoked certificates",
		"~lift a revocation", `"show"`, "enter", "~"+hash[:16], "~lost in a train", "esc", "C", "~lift a revocation",
		`"never"`, "enter", "~All policies are written anew", `"kubehsm:rescue"`, "enter",
		"~The policies are written", "esc", "C", "~lift a revocation", `"never"`, "enter")
	r.Sees("All policies are written anew", "kubehsm:rescue") // as it was chosen
	r.Press("esc")
	lift := func() {
		r.Walk("esc", "C", "~lift a revocation", `"lift"`, "enter", "~The certificate writes again")
	}
	lift()
	r.Walk("enter", "~it is needed", `"abab"`, "enter", "~Lift the revocation?", "~lost in a train", "y",
		"~The revocation is lifted")
	lift()
	r.Walk(`"abab"`, "enter", "~is none of the revoked certificates")
}

// TestRevoke: what gives access is shown, and taken away after a yes.
func TestRevoke(t *testing.T) {
	r, server := open(t)
	const bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/dev/rolebindings"
	server.Put(bindings, flowtest.Object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
		"metadata": flowtest.Object{"name": "jane-edit", "namespace": "dev"},
		"roleRef":  flowtest.Object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
		"subjects": []flowtest.Object{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}}})
	r.Walk("W", "~User", "enter", "~a user name is needed", `"jane"`, "enter", "~Remove, deny and end these?",
		"~rolebinding jane-edit in dev: ClusterRole edit")
	r.Press("enter") // the focus is on no
	r.Sees("Revoke access: cancelled")
	if n := len(server.Names(bindings)); n != 1 {
		t.Fatalf("%d bindings", n)
	}
	take := func() {
		r.Walk("W", "~User", `"jane"`, "enter", "~Remove, deny and end these?", "y")
	}
	server.Forbid("delete rolebindings")
	take()
	r.Walk("~failed: rolebinding jane-edit in dev", "esc")
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
		r.Walk("esc", "W", "~User", `"jane"`, "enter", "~Revoke anyway?", "~is in system:masters", c.answer,
			"~"+c.asks, "y", "~Result for the access of jane", "~"+c.ends)
	}
}

// TestBreakGlass wants a reason, and asks nobody for a PIN before.
func TestBreakGlass(t *testing.T) {
	r, server := open(t)
	r.Walk("B", "~Reason", "enter", "~a reason is needed")
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
		r.Walk(key, "~"+fmt.Sprintf("%s: read-only mode", says))
	}
}

// TestSpareTicket: two tickets are made, one after the other, and each is shown once. The
// first is shown even if the second fails.
func TestSpareTicket(t *testing.T) {
	r, server := open(t)
	ask := func(serial ...string) {
		r.Walk("t", "~A ticket for one person", `"jane"`, "tab", "tab", "tab", "tab")
		r.Press(serial...)
		r.Press("tab", `"prod"`, "tab", "down", "enter")
	}
	ask(`"7"`)
	r.Walk("~the spare's ticket cannot name token 7 too", "esc")
	ask()
	allTheSame(r)
	r.Sees("Ticket for jane", "the next one; this is not shown again")
	if n := len(server.Names(flowtest.Secrets)); n != 4 {
		t.Errorf("%d tokens", n)
	}
	r.Walk("esc", "~Spare ticket for jane", "~close; it is not shown again", "esc", "x", "~--name prod --spare -o qr",
		"esc")
	r.Loses("--spare")
}

// TestVerifyAttestation: the verdict says in capitals that an attestation is not verified.
func TestVerifyAttestation(t *testing.T) {
	r, _ := open(t)
	path := filepath.Join(t.TempDir(), "a.pem")
	must.OK(t, os.WriteFile(path, []byte("nothing"), 0o600))
	r.Walk("v", "~Against Yubico's published roots.", "enter", "~name a file", `"`+path+`"`, "enter",
		"~It is NOT verified", "~no PEM certificate", "esc", "v", "~Against Yubico's published roots.", `"`+path+`x"`,
		"enter", "~error: ", "~no such file")
}
