package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/fleet"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestDesk: the help desk's commands decide as they do without an approver, by reviews;
// it cannot approve past them, nor give what only admins give.
func TestDesk(t *testing.T) {
	l := newLab(t, controlplane.Options{})
	l.kubectl("-n", "default", "delete", "rolebinding", "kubehsm:approver") // which lets it write Events on requests
	r := l.start()
	c := newCrowd(l)
	file := func(n int, name string, groups ...string) (*person, string) {
		p := c.person(n, name)
		p.groups, p.attested = groups, nil
		p.bearer = c.token(ticket.Terms{User: p.user, Groups: p.groups, Lifetime: p.lifetime}.TokenGroups())
		if err := c.file(p); err != nil {
			t.Fatal(err)
		}
		poll.Until(t, name+" has a review", func() bool {
			out, err := l.c.Admin(t.Context(), "", "-n", "kubehsm-system", "get", "requestreview", clusterapi.ReviewName(name),
				"-ojsonpath={.status.reason}")
			return err == nil && out != ""
		})
		hash, err := csr.SPKIHash(p.key.Public())
		if err != nil {
			t.Fatal(err)
		}
		words, err := csr.FingerprintWords(hash)
		if err != nil {
			t.Fatal(err)
		}
		return p, strings.Join(words, " ")
	}
	desk, err := l.c.KubeconfigFor("jill", "kubehsm:helpdesk")
	if err != nil {
		t.Fatal(err)
	}
	program := buildKubehsm(t)
	home := t.TempDir()
	as := desk
	run := func(name string, args ...string) (string, error) { return l.runAs(as, home, name, args...) }

	jane, words := file(1, "unproven", "dev")
	if out, err := run(l.c.Kubectl(), "certificate", "approve", "unproven"); err == nil {
		t.Errorf("the desk approves past the approver: %s", out)
	}
	if out, err := run(l.c.Kubectl(), "-n", "kubehsm-system", "patch", "requestreview", "unproven", "--type=merge", "-p",
		`{"spec":{"decision":{"approve":true,"by":"boss"}}}`); err == nil || !strings.Contains(out, "own name") {
		t.Errorf("a decision in another's name: %v %s", err, out)
	}
	if out, err := run(program, "helpdesk", "approve", "unproven", "--words", words, "--yes"); err != nil {
		t.Errorf("helpdesk approve: %v\n%s", err, out)
	}
	if obj := l.stored().issued["unproven"]; obj == nil || !strings.Contains(condition(obj).Message, "by jill") {
		t.Errorf("it is %+v", obj)
	}
	if out, err := run(l.c.Kubectl(), "-n", "kubehsm-system", "patch", "requestreview", "unproven", "--type=merge", "-p",
		`{"spec":{"decision":{"approve":false,"by":"jill"}}}`); err == nil || !strings.Contains(out, "taken back") {
		t.Errorf("a decision is taken back: %v %s", err, out)
	}

	l.kubectl("delete", "csr", "unproven") // as the cluster does an hour after the approval
	again := *jane
	again.name, again.key = "again", newKey(t)
	if err := c.file(&again); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the second request with the ticket is denied", func() bool { return l.stored().denied["again"] != nil })
	if said := condition(l.stored().denied["again"]); said.Reason != judge.ReasonTicketUsed {
		t.Errorf("the second request with a ticket: %+v", said)
	}

	_, words = file(20, "Jane's laptop", "dev") // no name that a review may have
	if out, err := run(program, "helpdesk", "approve", "Jane's laptop", "--words", words, "--yes"); err != nil {
		t.Errorf("helpdesk approve: %v\n%s", err, out)
	}
	if obj := l.stored().issued["Jane's laptop"]; obj == nil || !strings.Contains(condition(obj).Message, "by jill") {
		t.Errorf("it is %+v", obj)
	}

	file(2, "unwanted", "dev")
	if out, err := run(program, "csr", "deny", "unwanted", "--message", "who are you?", "--yes"); err != nil {
		t.Errorf("csr deny: %v\n%s", err, out)
	}
	if obj := l.stored().denied["unwanted"]; obj == nil || !strings.Contains(condition(obj).Message, "who are you?") {
		t.Errorf("it is %+v", obj)
	}

	_, words = file(3, "unlisted", "admins")
	out, err := run(program, "helpdesk", "approve", "unlisted", "--words", words, "--yes")
	if err == nil || !strings.Contains(out, "an admin can") {
		t.Errorf("the desk gives what the policy does not list for it: %v\n%s", err, out)
	}
	review := func(path string) string {
		return l.kubectl("-n", "kubehsm-system", "get", "requestreview", "unlisted", "-ojsonpath={"+path+"}")
	}
	// What was refused stays so when nothing speaks against it any more.
	groups := func(all ...string) {
		if err := fleet.SetPolicy(t.Context(), l.c, map[string]any{"deskGroups": all}); err != nil {
			t.Fatal(err)
		}
	}
	groups("dev", "admins")
	poll.Until(t, "it is judged by the other policy", func() bool { return review(".status.reason") == judge.ReasonUnproven })
	if refused := review(".status.refused"); l.stored().pending["unlisted"] == nil || !strings.Contains(refused, "admins") ||
		review(".spec.decision") != "" {
		t.Errorf("a refused decision is carried out later, or forgotten: %q", refused)
	}
	groups("dev")
	poll.Until(t, "it is judged by the former policy", func() bool { return review(".status.adminOnly") == "true" })
	l.kubectl("certificate", "approve", "unlisted") // an admin's way
	poll.Until(t, "it is issued", func() bool { return l.stored().issued["unlisted"] != nil })

	lost := c.onRoster(c.person(4, "lost"))
	hash, err := csr.SPKIHash(lost.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	entry := revocation.Entry{Certificate: strings.Repeat("ab", 32), Key: hash, User: lost.user, By: "hannah",
		Reason: "lost in a train"}
	shard := revocation.Shard{Name: revocation.PolicyPrefix + "1", Entries: []revocation.Entry{entry}}
	list, err := json.Marshal(shard.Policy())
	if err != nil {
		t.Fatal(err)
	}
	l.apply(string(list))
	if err := c.file(lost); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the key of a revoked certificate is denied", func() bool { return l.stored().denied["lost"] != nil })
	if got := condition(l.stored().denied["lost"]); got.Reason != judge.ReasonRevoked ||
		!strings.Contains(got.Message, "lost in a train") {
		t.Errorf("%s: %s", got.Reason, got.Message)
	}
	// Nobody gives the roster's entries an owner, with which they would go, or what keeps them.
	for what, patch := range map[string]string{
		"an owner":    `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"1"}]}}`,
		"a finalizer": `{"metadata":{"finalizers":["example.com/x"]}}`} {
		if out, err := run(l.c.Kubectl(), "-n", "kubehsm-system", "patch", "hardwaretoken", fmt.Sprint(lost.serial), "--type=merge",
			"-p", patch); err == nil || !strings.Contains(out, "no owners and no finalizers") {
			t.Errorf("%s of a token: %v %s", what, err, out)
		}
	}
	if out, err := run(l.c.Kubectl(), "-n", "kubehsm-system", "patch", "hardwaretoken", fmt.Sprint(lost.serial), "--type=merge", "-p",
		`{"spec":{"state":"Lost"}}`); err != nil {
		t.Errorf("the desk writes the roster: %v %s", err, out)
	}
	staying := &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: "staying", Finalizers: []string{"example.com/x"}},
		Spec: certificatesv1.CertificateSigningRequestSpec{Request: l.stored().denied["lost"].Spec.Request,
			SignerName: csr.ClientSigner, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}}}
	for _, want := range []string{"no finalizers", "16 labels"} {
		if want == "16 labels" {
			staying.Finalizers, staying.Annotations = nil, map[string]string{"x": strings.Repeat("x", 65<<10)}
		}
		object, err := json.Marshal(staying)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.c.Apply(t.Context(), string(object)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a request that stays: %v, want %q", err, want)
		}
		staying.Finalizers, staying.Annotations = []string{"example.com/x"}, nil
	}

	// A policy that cannot be read is refused, or says so.
	policy := func(path string) string {
		return l.kubectl("-n", "kubehsm-system", "get", "enrollmentpolicy", "default", "-ojsonpath={"+path+"}")
	}
	attestation := func(field, value string) error {
		return fleet.SetPolicy(t.Context(), l.c, map[string]any{"attestation": map[string]any{field: value}})
	}
	roots := policy(".spec.attestation.roots")
	if attestation("roots", "none") == nil || attestation("minFirmware", strings.Repeat("9", 20)) == nil {
		t.Error("a root that is no PEM, or a firmware that is none, is taken")
	}
	if err := attestation("roots", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"); err != nil {
		t.Error(err)
	}
	poll.Until(t, "the policy's status says what is wrong", func() bool {
		return strings.Contains(policy(".status.problem"), "attestation roots")
	})
	if err := attestation("roots", roots); err != nil {
		t.Error(err)
	}
	poll.Until(t, "nothing is wrong", func() bool { return policy(".status.problem") == "" })

	poll.Until(t, "the policy that had no binding is bound", func() bool {
		out, err := r.get(t.Context(), r.metrics, "/metrics")
		return err == nil && strings.Contains(out, `kubehsm_revocation_policies{state="ok"} 1`)
	})
	if out, err := run(program, "csr", "show", "lost"); err != nil || !strings.Contains(out, "hannah: lost in a train") {
		t.Errorf("the desk reads the list: %v\n%s", err, out)
	}

	poll.Until(t, "the missing rights are counted", func() bool {
		out, err := r.get(t.Context(), r.metrics, "/metrics")
		return err == nil && strings.Contains(out, "kubehsm_missing_rights 2\n")
	})
	poll.Until(t, "an Event names them", func() bool {
		return strings.Contains(l.kubectl("-n", "kubehsm-system", "get", "events.events.k8s.io", "-oyaml"),
			"may not patch events.events.k8s.io in default")
	})

	// So does a decision end that the API server refuses: it is not carried out once it would be taken.
	approves := func(verb string) {
		l.kubectl("patch", "clusterrole", "kubehsm:approver", "--type=json", "-p",
			`[{"op":"test","path":"/rules/2/resources/0","value":"signers"},{"op":"replace","path":"/rules/2/verbs/0","value":"`+verb+`"}]`)
		poll.Until(t, "the API server knows the role", func() bool {
			out, err := l.c.Admin(t.Context(), `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{
				"user":"system:serviceaccount:kubehsm-system:kubehsm-cluster","resourceAttributes":{"group":"certificates.k8s.io",
				"resource":"signers","name":"kubernetes.io/kube-apiserver-client","verb":"approve"}}}`, "create", "-f", "-",
				"-ojsonpath={.status.allowed}")
			return err == nil && (out == "true") == (verb == "approve")
		})
	}
	approves("sign")
	_, words = file(5, "refused", "dev")
	if out, err := run(program, "helpdesk", "approve", "refused", "--words", words, "--yes"); err == nil ||
		!strings.Contains(out, "the API server refused the approval") {
		t.Errorf("the API server refuses: %v\n%s", err, out)
	}
	approves("approve")
	_, words = file(6, "next", "dev")
	if out, err := run(program, "helpdesk", "approve", "next", "--words", words, "--yes"); err != nil {
		t.Errorf("the next decision: %v\n%s", err, out)
	}
	if l.stored().pending["refused"] == nil {
		t.Error("what the API server refused is approved later")
	}

	l.apply(everybody)
	stolen := l.holder("jane")
	l.quota()
	revoke := []string{"helpdesk", "revoke", "--fingerprint", stolen.entry.Certificate, "--user", "jane", "--reason", "stolen", "--yes"}
	if out, err := run(program, revoke...); err != nil || !strings.Contains(out, "The approver has put the revocation in force") {
		t.Errorf("the desk revokes: %v\n%s", err, out)
	}
	if err := stolen.write(t.Context()); !revocation.IsRefusal(err) || !strings.Contains(err.Error(), "by jill: stolen") {
		t.Errorf("what the desk revoked: %v", err)
	}
	if out, err := run(program, "revocation", "list"); err != nil || !strings.Contains(out, "By the approver") ||
		!strings.Contains(out, stolen.entry.Certificate[:16]) || !strings.Contains(out, "in force since") {
		t.Errorf("the desk's list: %v\n%s", err, out)
	}
	lift := []string{"revocation", "lift", stolen.entry.Certificate, "--yes"}
	if out, err := run(program, lift...); err == nil || !strings.Contains(out, "cluster admin") || !revocation.IsRefusal(stolen.write(t.Context())) {
		t.Errorf("the desk lifts: %v\n%s", err, out)
	}
	as = l.c.AdminKubeconfig()
	if out, err := run(program, lift...); err != nil {
		t.Errorf("an admin lifts: %v\n%s", err, out)
	}
	poll.Until(t, "what was lifted writes", func() bool { return stolen.write(t.Context()) == nil })
	if out := l.kubectl("get", "revocations", "-A", "-o", "name"); out != "" {
		t.Errorf("the approver would revoke it again: %s", out)
	}
	as = desk
	r.kill()
	if out, err := run(program, append(revoke, "--timeout", "1s")...); err == nil || !strings.Contains(out, "not in force yet") ||
		!strings.Contains(out, "a cluster admin can revoke at once") {
		t.Errorf("without an approver that runs: %v\n%s", err, out)
	}
	l.start()
	poll.Until(t, "the next approver does it", func() bool { return revocation.IsRefusal(stolen.write(t.Context())) })
}

// buildKubehsm builds kubehsm, and returns its path.
func buildKubehsm(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kubehsm")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", program, ".")
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// runAs runs a program with a kubeconfig and a home folder.
func (l *lab) runAs(kubeconfig, home, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(l.t.Context(), program, args...)
	cmd.Env = append(l.c.KubectlEnv(), "PATH="+os.Getenv("PATH"), "HOME="+home, "XDG_RUNTIME_DIR="+home,
		"KUBECONFIG="+kubeconfig)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func condition(obj *certificatesv1.CertificateSigningRequest) certificatesv1.CertificateSigningRequestCondition {
	return obj.Status.Conditions[0]
}
