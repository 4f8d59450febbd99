//go:build linux

package scenarios

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
)

// policiesWork waits until the API server enforces the policies, which it does
// a moment after they are applied: the break-glass one must refuse.
func (u *user) policiesWork() {
	u.t.Helper()
	poll.Until(u.t, "the policies are enforced", func() bool {
		_, err := u.Cluster.Admin(u.t.Context(), requestFor(u.t, unique("probe"), "jane", "", 0, "kubehsm:break-glass"),
			"create", "--dry-run=server", "-f", "-")
		return err != nil && strings.Contains(err.Error(), "one hour at most")
	})
}

// requestFor is the manifest of a request for user in groups, with a key that is
// in no token.
func requestFor(t testing.TB, name, user, reason string, lifetime time.Duration, groups ...string) string {
	t.Helper()
	pem, err := csr.NewRequest(softwareKey(t), csr.Subject{User: user, Groups: groups}, csr.RequestOptions{})
	must.OK(t, err)
	return requestOf(name, reason, lifetime, pem)
}

// requestOf is requestFor with a PKCS#10 of any form.
func requestOf(name, reason string, lifetime time.Duration, pem []byte) string {
	expiration := ""
	if lifetime != 0 {
		expiration = fmt.Sprintf("  expirationSeconds: %d\n", int(lifetime/time.Second))
	}
	return fmt.Sprintf("apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata:\n  name: %s\n  annotations: {kubehsm.github.io/reason: %q}\n"+
		"spec:\n  request: %s\n  signerName: kubernetes.io/kube-apiserver-client\n  usages: [client auth, digital signature]\n%s",
		name, reason, base64.StdEncoding.EncodeToString(pem), expiration)
}

// From a ticket to a working context, on a terminal; the help desk approves by
// the words, and the ticket is over.
func TestTicket(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	desk := u.newDesk(unique("hannah"), "kubehsm:helpdesk")
	name := unique("jane")
	file, _, text := desk.ticket("--for", name, "--group", lab.DevelopersGroup, "--name", joined, "--lifetime", "24h")
	s := u.terminal(u.Binary, "join", "--yes") // asks for the ticket
	s.Answer("Paste the ticket", text)
	s.WaitFor("looking for the cluster at ")
	s.Answer(pinPrompt, lab.PIN)
	s.WaitFor("waiting for somebody to approve")
	request, words := desk.filed(name)
	if screen := strings.Join(strings.Fields(s.Screen()), " "); !strings.Contains(screen, strings.Fields(words)[0]) {
		t.Errorf("the words %q are not shown:\n%s", words, s.Screen())
	}
	res := desk.run("helpdesk", "approve", request, "--words", "abandon ability able about above absent absorb abstract",
		"--yes")
	desk.u.wantWords(res.Stderr, "read out once more", "not the words")
	// A thief of the ticket knows the name, too.
	for _, by := range [][]string{nil, {"--accept-risk", "user:" + name}} {
		if res := desk.run(append([]string{"helpdesk", "approve", request, "--yes"}, by...)...); res.Code != 5 ||
			!strings.Contains(res.Stderr, "nothing proves whose key this is") ||
			strings.Contains(res.Stderr, "or with --accept-risk") {
			t.Errorf("without the words: %s", res)
		}
	}
	out := parse[struct {
		TicketEnded bool
		NotAfter    time.Time
		Certificate string
	}](t, desk.ok("helpdesk", "approve", request, "--words", words, "--yes", "-o", "json"))
	if !out.TicketEnded || out.NotAfter.After(time.Now().Add(25*time.Hour)) ||
		!strings.Contains(out.Certificate, "BEGIN CERTIFICATE") {
		t.Errorf("approved: %+v", out)
	}
	if code := s.Exit(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.Screen())
	}
	if out := u.kubectl("--context", joined, "get", "namespaces", "-o", "name"); !strings.Contains(out,
		"namespace/default") {
		t.Errorf("kubectl: %s", out)
	}
	secret := strings.ReplaceAll(text, "-", "")
	u.keptNowhere(secret)
	u.keptNowhere(text)
	if events := u.admin("get", "events", "-n", "default", "-o",
		"jsonpath={.items[*].involvedObject.name}"); !strings.Contains(events, request) {
		t.Errorf("no event on the request: %s", events)
	}
	again := u.ran(u.Kubehsm(t.Context(), "join", "--name", "second", "--ticket", file, "--yes", "--discovery-timeout",
		"20s"))
	u.wantFailure(again, 1, "ask for a new one", "does not know this token")
}

// What is filed with a ticket but is not what it is for is refused; and whoever
// holds a ticket, or sits at the help desk, can do nothing else.
func TestTicketIsForOneThing(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	hannah := u.newDesk(unique("hannah"), "kubehsm:helpdesk")
	name := unique("jane")
	_, id, text := hannah.ticket("--for", name, "--group", "dev", "--lifetime", "1h", "--ttl", "1h")
	token := strings.TrimSpace(u.admin("get", "secret", "-n", "kube-system", "bootstrap-token-"+id, "-o",
		"jsonpath={.data.token-secret}"))
	secret, err := base64.StdEncoding.DecodeString(token)
	must.OK(t, err)
	holder := func(stdin string, args ...string) lab.Result {
		return u.ran(u.Run(t.Context(), lab.Run{Stdin: stdin, Env: []string{"KUBECONFIG=/dev/null"}}, u.Cluster.Kubectl(),
			append([]string{"--server", u.Cluster.Server(), "--certificate-authority", u.Cluster.CAFile(), "--token",
				id + "." + string(secret)}, args...)...))
	}
	first := unique("first")
	if res := holder(requestFor(t, first, name, "", 2*time.Hour, "admins"), "create", "-f", "-"); res.Code != 0 {
		t.Fatal(res)
	}
	res := hannah.run("helpdesk", "approve", first, "--yes", "--words", "x")
	if res.Code != 1 || !strings.Contains(res.Stderr, `asks for the groups "admins"`) ||
		!strings.Contains(res.Stderr, `lifetime "2 h"`) {
		t.Errorf("other groups, longer: %s", res)
	}
	second := unique("second")
	if res := holder(requestFor(t, second, name, "", time.Hour, "dev"), "create", "-f", "-"); res.Code != 0 {
		t.Fatal(res)
	}
	res = hannah.run("helpdesk", "approve", second, "--yes", "--words", "x")
	if res.Code != 1 || !strings.Contains(res.Stderr, "another request too: "+first) {
		t.Errorf("a second request: %s", res)
	}
	for _, name := range []string{first, second} { // nor by the way of all requests
		if res := hannah.run("csr", "approve", name, "--yes", "--words", "x"); res.Code != 1 ||
			!strings.Contains(res.Stderr, "another request too") || !strings.Contains(res.Stderr, "--accept-risk=mismatch") {
			t.Errorf("csr approve %s: %s", name, res)
		}
	}
	// A ticket that was rewritten is told from the one that was made.
	forged, err := ticket.Parse([]byte(text))
	must.OK(t, err)
	forged.Groups, forged.Lifetime = []string{"admins"}, 2*time.Hour
	rewritten, err := forged.Reveal()
	must.OK(t, err)
	if res := hannah.run("helpdesk", "approve", first, "--yes", "--words", "x", "--ticket", rewritten); res.Code != 1 ||
		!strings.Contains(res.Stderr, "made for other terms") {
		t.Errorf("a ticket that was rewritten: %s", res)
	}
	// Nor by another desk.
	other := u.newDesk(unique("harry"), "kubehsm:helpdesk")
	if res := other.run("helpdesk", "approve", second, "--yes", "--words", "x"); res.Code != 1 ||
		!strings.Contains(res.Stderr, "another request too: "+first) {
		t.Errorf("another desk: %s", res)
	}
	for what, res := range map[string]lab.Result{
		"the holder lists requests":    holder("", "get", "csr"),
		"the holder deletes a request": holder("", "delete", "csr", first),
		"the holder approves":          holder("", "certificate", "approve", first),
		"the holder reads secrets":     holder("", "get", "secrets", "-n", "kube-system"),
		"the desk reads secrets":       hannah.kubectl("", "get", "secrets", "-n", "kube-system"),
		"the desk makes a secret":      hannah.kubectl("", "create", "secret", "generic", "x", "-n", "kube-system"),
	} {
		if res.Code == 0 || !strings.Contains(res.Stderr, "orbidden") &&
			!strings.Contains(res.Stderr, "makes and deletes no secrets but") {
			t.Errorf("%s: %s", what, res)
		}
	}
	for _, reserved := range [][]string{{"--for", "system:kube-scheduler"},
		{"--for", unique("eve"), "--group", "kubehsm:break-glass", "--lifetime", "1h"}} {
		_, id, text := hannah.ticket(append(reserved, "--ttl", "1h")...)
		k, err := ticket.Parse([]byte(text))
		must.OK(t, err)
		name := unique("reserved")
		if res := u.ran(u.Run(t.Context(), lab.Run{Stdin: requestFor(t, name, k.User, "x", time.Hour, k.Groups...),
			Env: []string{"KUBECONFIG=/dev/null"}}, u.Cluster.Kubectl(),
			"--server", u.Cluster.Server(), "--certificate-authority", u.Cluster.CAFile(), "--token", k.Token.Reveal(), "create", "-f", "-")); res.Code != 0 {
			t.Fatalf("ticket %s: %s", id, res)
		}
		if res := hannah.kubectl("", "certificate", "approve", name); res.Code == 0 ||
			!strings.Contains(res.Stderr, "begins with system: or kubehsm:") &&
				!strings.Contains(res.Stderr, "not with a join line") {
			t.Errorf("the desk gives itself more, %q: %s", reserved, res)
		}
		if len(k.Groups) == 0 {
			continue
		}
		bob := u.newDesk(unique("bob"), "kubehsm:break-glass-approvers")
		if res := bob.kubectl("", "certificate", "approve", name); res.Code == 0 ||
			!strings.Contains(res.Stderr, "not with a join line") {
			t.Errorf("an approver's own ticket breaks the glass: %s", res)
		}
	}
	foreign := unique("foreign")
	if res := u.newDesk("").kubectl(requestFor(t, foreign, name, "", time.Hour, "dev"), "create", "-f",
		"-"); res.Code != 0 {
		t.Fatal(res)
	}
	if res := hannah.kubectl("", "certificate", "approve", foreign); res.Code == 0 ||
		!strings.Contains(res.Stderr, "filed with one of its tickets") {
		t.Errorf("the desk approves what was filed without a ticket: %s", res)
	}
	node := hannah.run("bootstrap-token", "create", "--groups", "system:bootstrappers:kubeadm:default-node-token")
	if node.Code == 0 || !strings.Contains(node.Stderr, "of the group system:bootstrappers:kubehsm:tickets only") {
		t.Errorf("the desk makes a node's token: %s", node)
	}
	for _, ttl := range []string{"0", "25h"} {
		if res := hannah.run("bootstrap-token", "create", "--ttl", ttl); res.Code == 0 ||
			!strings.Contains(res.Stderr, "live for 24 hours at most") {
			t.Errorf("the desk makes a token that lives for %s: %s", ttl, res)
		}
	}
	foreignToken := strings.TrimSpace(u.newDesk("").ok("bootstrap-token", "create", "--groups",
		"system:bootstrappers:kubeadm:default-node-token", "--ttl", "1h"))
	if res := hannah.run("bootstrap-token", "delete", foreignToken[:6]); res.Code == 0 ||
		!strings.Contains(res.Stderr, "makes and deletes bootstrap tokens of the group") {
		t.Errorf("the desk deletes another's token: %s", res)
	}
	if res := hannah.run("helpdesk", "ticket", "--for", "jane", "--ttl", "25h"); res.Code != 2 {
		t.Errorf("a ticket for longer than a day: %s", res)
	}
}

// Tickets for two tokens, as pictures and text, are different ones.
func TestTicketForms(t *testing.T) {
	t.Parallel()
	desk, dir := newJoiner(t, lab.Options{}).newDesk(""), t.TempDir()
	desk.ok("helpdesk", "ticket", "--for", unique("jane"), "--name", "prod", "--spare", "-o", "file", "--file",
		filepath.Join(dir, "t.png"))
	first, spare := readPrivate(t, filepath.Join(dir, "t.png")), readPrivate(t, filepath.Join(dir, "t-spare.png"))
	if !strings.HasPrefix(first, "\x89PNG") || !strings.HasPrefix(spare, "\x89PNG") || first == spare {
		t.Errorf("%d and %d bytes", len(first), len(spare))
	}
	out := desk.ok("helpdesk", "ticket", "--for", unique("jane"), "-o", "qr")
	if !strings.Contains(out, "█") || !strings.Contains(out, "KHSM1-") || strings.Contains(out, "\x1b") {
		t.Errorf("the QR code: %q", out)
	}
}

// readPrivate is the content of a file that only its owner may read.
func readPrivate(t *testing.T, file string) string {
	t.Helper()
	info, err := os.Stat(file)
	must.OK(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of %s is %v", file, info.Mode())
	}
	b, err := os.ReadFile(file)
	must.OK(t, err)
	return string(b)
}

// A lost token: what can be removed is, and what remains is said.
func TestRevoke(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	admin := u.newDesk("")
	name, group := unique("jane"), unique("team")
	request, pending, unsigned := unique("live"), unique("pending"), unique("unsigned")
	for n, signer := range map[string]string{request: "kubernetes.io/kube-apiserver-client",
		pending: "kubernetes.io/kube-apiserver-client", unsigned: "example.com/slow"} {
		text := strings.Replace(requestFor(t, n, name, "", time.Hour, group), "kubernetes.io/kube-apiserver-client", signer,
			1)
		if res := admin.kubectl(text, "create", "-f", "-"); res.Code != 0 {
			t.Fatal(res)
		}
	}
	u.admin("certificate", "approve", request, unsigned)
	admin.ok("csr", "wait", request)
	alone, shared, grouped := unique("alone"), unique("shared"), unique("grouped")
	u.admin("create", "clusterrolebinding", alone, "--clusterrole=view", "--user="+name)
	u.admin("create", "rolebinding", shared, "--clusterrole=view", "--user="+name, "--user=bob", "--user="+name, "-n",
		"default")
	u.admin("create", "clusterrolebinding", grouped, "--clusterrole=edit", "--group="+group)
	_, id, _ := admin.ticket("--for", name)

	look := admin.ok("helpdesk", "revoke", "--user", name, "--dry-run")
	for _, want := range []string{alone, shared, grouped, request, pending, unsigned, id, "Stays", "Can be removed",
		"Not known"} {
		if !strings.Contains(look, want) {
			t.Errorf("the look lacks %q:\n%s", want, look)
		}
	}
	if strings.Count(look, request) != 1 {
		t.Errorf("one certificate is listed more than once:\n%s", look)
	}
	out := admin.ok("helpdesk", "revoke", "--user", name, "--yes")
	for _, want := range []string{"still read until", grouped, "client authority has to be replaced"} {
		if !strings.Contains(out, want) {
			t.Errorf("what remains lacks %q:\n%s", want, out)
		}
	}
	if left := u.admin("get", "clusterrolebindings", "-o", "name"); strings.Contains(left, alone) ||
		!strings.Contains(left, grouped) {
		t.Errorf("bindings left: %s", left)
	}
	if subjects := u.admin("get", "rolebinding", shared, "-n", "default", "-o",
		"jsonpath={.subjects[*].name}"); subjects != "bob" {
		t.Errorf("the shared binding has %q", subjects)
	}
	if c := u.admin("get", "csr", pending, "-o", "jsonpath={.status.conditions[*].type}"); c != "Denied" {
		t.Errorf("the pending request is %q", c)
	}
	if res := admin.kubectl("", "get", "csr", unsigned); res.Code == 0 {
		t.Error("what was approved may still be signed")
	}
	if res := admin.kubectl("", "get", "secret", "-n", "kube-system", "bootstrap-token-"+id); res.Code == 0 {
		t.Error("the ticket is still good")
	}
	weak := u.newDesk(unique("weak"))
	if res := weak.run("helpdesk", "revoke", "--user", name, "--dry-run"); res.Code != 0 ||
		!strings.Contains(res.Stdout, "you may not list") {
		t.Errorf("who may look at nothing: %s", res)
	}
}
