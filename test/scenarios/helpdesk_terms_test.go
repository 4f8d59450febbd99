//go:build linux

package scenarios

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
)

// withToken files a request with a bootstrap token.
func (u *user) withToken(token, manifest string) {
	u.t.Helper()
	res := u.ran(u.Run(u.t.Context(), lab.Run{Stdin: manifest, Env: []string{"KUBECONFIG=/dev/null"}}, u.Cluster.Kubectl(),
		"--server", u.Cluster.Server(), "--certificate-authority", u.Cluster.CAFile(), "--token", token, "create", "-f", "-"))
	if res.Code != 0 {
		u.t.Fatal(res)
	}
}

func (d *desk) words(request string) string {
	d.u.t.Helper()
	return strings.Join(parse[struct{ Words []string }](d.u.t, d.ok("csr", "show", request, "-o", "json")).Words, " ")
}

func (u *user) state(request string) string {
	u.t.Helper()
	return u.admin("get", "csr", request, "-o", "jsonpath={.status.conditions[*].type}")
}

// TestTermsBindEveryDesk: a ticket's terms bind whoever approves, on whatever
// computer, as the desk's own role, which may read no token.
func TestTermsBindEveryDesk(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	u.policiesWork()
	hannah, harry := u.newDesk(unique("hannah"), "kubehsm:helpdesk"), u.newDesk(unique("harry"), "kubehsm:helpdesk")
	name := unique("alice")
	tokenOf := func(text string) string {
		k, err := ticket.Parse([]byte(text))
		must.OK(t, err)
		return k.Token.Reveal()
	}
	_, _, text := hannah.ticket("--for", name, "--group", "dev", "--lifetime", "1h")
	wrong := unique("wrong")
	u.withToken(tokenOf(text), requestFor(t, wrong, name, "", 0, "platform-admins"))
	words := harry.words(wrong)
	if out := harry.ok("csr", "show", wrong); !strings.Contains(strings.Join(strings.Fields(out), " "),
		fmt.Sprintf("Ticket for: the user %q, in \"dev\", for 1 h", name)) ||
		!strings.Contains(out, `refused: it asks for the groups "platform-admins"`) ||
		strings.Contains(out, ticket.TermsPrefix) {
		t.Errorf("csr show: %s", out)
	}
	for _, approve := range [][]string{{"csr", "approve"}, {"helpdesk", "approve"}} {
		res := harry.run(append(approve, wrong, "--words", words, "--yes")...)
		if res.Code != 1 || !strings.Contains(res.Stderr, `asks for the groups "platform-admins", its ticket is for "dev"`) ||
			!strings.Contains(res.Stderr, "--accept-risk=mismatch") {
			t.Errorf("%q: %s", approve, res)
		}
	}
	if res := harry.run("csr", "approve", wrong, "--words", words, "--yes", "--accept-risk", "revoked"); res.Code != 1 {
		t.Errorf("another risk: %s", res)
	}
	if res := harry.run("csr", "approve", wrong, "--accept-risk", "everything"); res.Code != 2 {
		t.Errorf("an unknown risk: %s", res)
	}
	if got := u.state(wrong); got != "" {
		t.Fatalf("the request is %s", got)
	}
	harry.ok("csr", "approve", wrong, "--words", words, "--yes", "--accept-risk", "mismatch")

	// What fits is approved from any computer, and its ticket ended.
	_, id, text := hannah.ticket("--for", name, "--group", "dev")
	right := unique("right")
	u.withToken(tokenOf(text), requestFor(t, right, name, "", 0, "dev"))
	if out := harry.ok("helpdesk", "approve", right, "--words", harry.words(right), "--yes"); !strings.Contains(out,
		"The ticket is ended") {
		t.Errorf("what fits: %s", out)
	}
	if out := u.admin("get", "secrets", "-n", "kube-system", "-o", "name"); strings.Contains(out, id) {
		t.Errorf("the ticket is not ended: %s", out)
	}

	// Who may write tokens can make one anew: the desk that made the ticket sees it.
	_, id, text = hannah.ticket("--for", name, "--group", "dev")
	groups := strings.Join(ticket.Terms{User: name, Groups: []string{"platform-admins"}}.TokenGroups(), ",")
	u.admin("patch", "secret", "-n", "kube-system", "bootstrap-token-"+id, "--patch",
		`{"stringData":{"auth-extra-groups":"`+groups+`"}}`)
	anew := unique("anew")
	u.filedWith(tokenOf(text), requestFor(t, anew, name, "", 0, "platform-admins"), anew, "1-1:")
	if res := hannah.run("csr", "approve", anew, "--words", hannah.words(anew), "--yes"); res.Code != 1 ||
		!strings.Contains(res.Stderr, "has replaced the token") {
		t.Errorf("a token that was made anew: %s", res)
	}
	// Groups that kubehsm has not written are no terms, and no reason to look away.
	u.admin("patch", "secret", "-n", "kube-system", "bootstrap-token-"+id, "--patch",
		`{"stringData":{"auth-extra-groups":"`+ticket.Group+","+ticket.TermsPrefix+`1-2:mfzwk"}}`)
	broken := unique("broken")
	u.filedWith(tokenOf(text), requestFor(t, broken, name, "", 0, "dev"), broken, "1-2:mfzwk")
	if res := harry.run("csr", "approve", broken, "--words", harry.words(broken), "--yes"); res.Code != 1 ||
		!strings.Contains(res.Stderr, "not written by kubehsm") {
		t.Errorf("terms that cannot be read: %s", res)
	}
	// Names of others do not reach the terminal as they are.
	evil := ticket.Terms{User: "a\x1b[2Jb", Groups: []string{strings.Repeat("x\x07", 400)}}
	u.admin("patch", "secret", "-n", "kube-system", "bootstrap-token-"+id, "--patch",
		`{"stringData":{"auth-extra-groups":"`+strings.Join(evil.TokenGroups(), ",")+`"}}`)
	hostile := unique("hostile")
	u.filedWith(tokenOf(text), requestFor(t, hostile, name, "", 0, "dev"), hostile, "1-")
	if res := harry.run("csr", "show", hostile); res.Code != 0 || strings.ContainsAny(res.Stdout, "\x1b\x07") ||
		len(res.Stdout) > 16<<10 {
		t.Errorf("terms with control characters: %s", res)
	}
	if res := harry.run("csr", "approve", hostile, "--words", "x", "--yes"); res.Code != 1 ||
		strings.ContainsAny(res.Stderr, "\x1b\x07") {
		t.Errorf("terms with control characters: %s", res)
	}

	// The desk cannot give its tokens other groups beside.
	for _, groups := range []string{
		ticket.Group + ",system:bootstrappers:kubeadm:default-node-token",
		"system:bootstrappers:kubehsm:terms:1-1:mfzwk",
		ticket.Group + ",system:bootstrappers:kubehsm:term",
		ticket.Group + "s",
	} {
		res := hannah.run("bootstrap-token", "create", "--groups", groups, "--ttl", "1h")
		if res.Code == 0 || !strings.Contains(res.Stderr, "of the group "+ticket.Group+" only") {
			t.Errorf("groups %s: %s", groups, res)
		}
	}
}

// filedWith files a request with a token that was changed a moment ago, again
// and again until the API server has seen the change: until its groups have part.
func (u *user) filedWith(token, manifest, name, part string) {
	u.t.Helper()
	poll.Until(u.t, "the token's new groups count", func() bool {
		u.withToken(token, manifest)
		if strings.Contains(u.admin("get", "csr", name, "-o", "jsonpath={.spec.groups}"), ticket.TermsPrefix+part) {
			return true
		}
		u.admin("delete", "csr", name)
		return false
	})
}

// TestRevokedIsNotApproved: no request is approved unnoticed for a key that was revoked, or by a certificate that was.
func TestRevokedIsNotApproved(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	u.policiesWork()
	admin := u.newDesk("")
	name := unique("jane")
	jane := u.newDesk(name, lab.FilersGroup)
	lost := softwareKey(t)
	file := func(by *desk, user string, key any) string {
		t.Helper()
		request := unique("request")
		manifest := requestFor(t, request, user, "", 0)
		if key != nil {
			text, err := csr.NewRequest(lost, csr.Subject{User: user, Groups: []string{lab.FilersGroup}}, csr.RequestOptions{})
			must.OK(t, err)
			manifest = strings.Replace(manifest, manifest[strings.Index(manifest, "  request: "):strings.Index(manifest,
				"  signerName")],
				"  request: "+base64.StdEncoding.EncodeToString(text)+"\n", 1)
		}
		if res := by.kubectl(manifest, "create", "-f", "-"); res.Code != 0 {
			t.Fatal(res)
		}
		return request
	}
	first := file(jane, name, lost)
	answered := []string{"--yes", "--accept-risk", "user:" + name}
	admin.ok(append([]string{"csr", "approve", first}, answered...)...)
	certificate := admin.ok("csr", "wait", first)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return file
	}
	der, err := x509.MarshalPKCS8PrivateKey(lost)
	must.OK(t, err)
	block, _ := pem.Decode([]byte(certificate))
	byTheLost := func(request string) lab.Result {
		return u.ran(u.Run(t.Context(), lab.Run{Stdin: requestFor(t, request, unique("joe"), "", 0),
			Env: []string{"KUBECONFIG=/dev/null"}}, u.Cluster.Kubectl(), "--server", u.Cluster.Server(),
			"--certificate-authority", u.Cluster.CAFile(), "--client-certificate", write("cert", "CERTIFICATE", block.Bytes),
			"--client-key", write("key", "PRIVATE KEY", der), "create", "-f", "-"))
	}
	third := unique("third")
	if res := byTheLost(third); res.Code != 0 {
		t.Fatal(res)
	}
	if out := admin.ok("helpdesk", "revoke", "--user", name, "--yes"); !strings.Contains(out, "still read until") {
		t.Errorf("revoke: %s", out)
	}
	if res := byTheLost(unique("fourth")); res.Code != 1 || !strings.Contains(res.Stderr, "was revoked on") ||
		!strings.Contains(res.Stderr, "access for "+name+" was revoked") {
		t.Errorf("a request by the revoked certificate: %s", res)
	}

	renewal, others := file(jane, name, lost), file(admin, unique("joe"), lost)
	why := "its key is one of"
	for _, request := range []string{renewal, others} {
		if out := admin.ok("csr", "show", request); !strings.Contains(out, "refused: ") || !strings.Contains(out, why) {
			t.Errorf("csr show: %s", out)
		}
		if res := admin.run("csr", "approve", request, "--own", "--yes"); res.Code != 1 ||
			!strings.Contains(res.Stderr, why) || !strings.Contains(res.Stderr, "--accept-risk=revoked") {
			t.Errorf("csr approve: %s", res)
		}
		if got := u.state(request); got != "" {
			t.Errorf("%s is %s", request, got)
		}
	}
	// A request by the lost certificate, for another key and user.
	if res := admin.run("csr", "approve", third, "--yes"); res.Code != 1 ||
		!strings.Contains(res.Stderr, "it was filed by") {
		t.Errorf("by the lost certificate: %s", res)
	}

	// Where somebody knows why, it is approved.
	if res := admin.run("csr", "approve", renewal, "--yes", "--accept-risk", "revoked"); res.Code != 5 {
		t.Errorf("the warning is answered by nobody: %s", res)
	}
	admin.ok(append([]string{"csr", "approve", renewal, "--accept-risk", "revoked"}, answered...)...)
}

// TestRevokeAsTheDesk: the desk's own role may not look at bindings. It says so
// and fails.
func TestRevokeAsTheDesk(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	u.policiesWork()
	desk := u.newDesk(unique("hannah"), "kubehsm:helpdesk")
	name := unique("jane")
	u.admin("create", "clusterrolebinding", unique("alone"), "--clusterrole=view", "--user="+name)
	if res := desk.run("helpdesk", "revoke", "--user", name, "--dry-run"); res.Code != 0 ||
		!strings.Contains(res.Stdout, "clusterrolebindings: you may not list them") {
		t.Errorf("the look: %s", res)
	}
	res := desk.run("helpdesk", "revoke", "--user", name, "--yes")
	u.wantWords(res.Stderr, "have a cluster admin run `kubehsm helpdesk revoke --user "+name+"`",
		"you may not look at everything, so some access may remain", "rolebindings: you may not list them")
	if res.Code != 1 || !strings.Contains(res.Stdout, "not done: clusterrolebindings") {
		t.Errorf("revoke: %s", res)
	}
}
