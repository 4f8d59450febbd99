//go:build linux

package scenarios

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

func publicKeyOf(t testing.TB, chain []byte) any {
	t.Helper()
	block, _ := pem.Decode(chain)
	leaf, err := x509.ParseCertificate(block.Bytes)
	must.OK(t, err)
	return leaf.PublicKey
}

// TestMigrate moves a context that holds its key in the kubeconfig to the token:
// the old one stays until the new one has worked, and can be brought back.
func TestMigrate(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.kubectl("config", "set-context", lab.Context, "--namespace", "kube-public")
	u.kubectl("config", "set", "clusters."+lab.Context+".disable-compression", "true")
	before := u.files(u.Kubeconfig)
	if out := u.kubehsm("kubeconfig", "migrate", lab.Context, "--dry-run"); !strings.Contains(out, lab.Filer) {
		t.Errorf("the review:\n%s", out)
	}
	u.unchanged(before, u.Kubeconfig)
	args := []string{"kubeconfig", "migrate", lab.Context, "--approve-with", u.Cluster.AdminKubeconfig(), "--yes"}

	// Without a person to ask, the old context is kept, and what is left to do is said.
	out := u.ok(u.KubehsmPIN(t.Context(), lab.PIN, args...))
	if !strings.Contains(out, "Enrolled: authenticated as "+lab.Filer) ||
		!strings.Contains(out, "must be considered copied") || !strings.Contains(out, "is kept") {
		t.Errorf("after the migration:\n%s", out)
	}
	if out := u.kubectl("--context", lab.Context, "auth", "whoami", "-o",
		"jsonpath={.status.userInfo.username}"); out != lab.Filer {
		t.Errorf("the old context is %q", out)
	}
	if out := u.kubectl("config", "view", "--minify", "-o", "jsonpath={..namespace}"); out != "kube-public" {
		t.Errorf("the new context acts on namespace %q", out)
	}
	if out := u.kubectl("config", "view", "--minify", "-o", "jsonpath={..disable-compression}"); out != "true" {
		t.Errorf("disable-compression of the new context: %q", out)
	}
	out = u.ok(u.KubehsmPIN(t.Context(), lab.PIN, append(args, "--delete-old")...))
	if !strings.Contains(out, "is gone") {
		t.Errorf("after the deletion:\n%s", out)
	}
	text, err := os.ReadFile(u.Kubeconfig)
	must.OK(t, err)
	if strings.Contains(string(text), "client-key-data") {
		t.Error("the old key is still in the kubeconfig")
	}
	if out := u.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != lab.Filer {
		t.Errorf("the new context is %q", out)
	}

	u.kubehsm("kubeconfig", "undo", "--yes")
	if out := u.kubectl("--context", lab.Context, "auth", "whoami", "-o",
		"jsonpath={.status.userInfo.username}"); out != lab.Filer {
		t.Errorf("the old context, brought back, is %q", out)
	}
}

// TestPluginPolicy: where kubectl's own preferences allow only certain plugins,
// the command that is offered makes kubectl run this one beside them.
func TestPluginPolicy(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	file := filepath.Join(u.Dir, "kuberc")
	const policy = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- command: another\n"
	must.OK(t, os.WriteFile(file, []byte(policy), 0o600))
	run := lab.Run{Env: []string{"KUBERC=" + file}}
	if res := u.ran(u.Run(t.Context(), run, u.Cluster.Kubectl(), "get", "namespaces")); res.Code == 0 {
		t.Fatal("kubectl does not heed the policy")
	}
	res := u.ran(u.Run(t.Context(), run, u.Binary, "kubeconfig", "set", enrolled, "--dry-run"))
	_, command, offered := strings.Cut(res.Stdout+res.Stderr, "allow it with: ")
	if !offered {
		t.Fatalf("nothing is offered: %s", res)
	}
	command, _, _ = strings.Cut(command, "\n")
	u.ok(u.Run(t.Context(), run, "/bin/sh", "-c", command))
	u.ok(u.Run(t.Context(), run, u.Cluster.Kubectl(), "get", "namespaces"))
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "command: another") {
		t.Errorf("what was allowed is no more: %v\n%s", err, text)
	}
}

// TestUnenroll leaves nothing but the key.
func TestUnenroll(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	r := u.enroll()
	u.kubehsm("unenroll", "--dry-run")
	u.kubectl("auth", "whoami")
	u.kubehsm("unenroll", enrolled, "--yes")
	text, err := os.ReadFile(u.Kubeconfig)
	must.OK(t, err)
	if strings.Contains(string(text), enrolled) {
		t.Errorf("the kubeconfig still names it:\n%s", text)
	}
	if u.fingerprint(t) != r.Fingerprint {
		t.Error("the key is another one")
	}
	res := u.ran(u.Run(t.Context(), lab.Run{Env: []string{execInfo}}, u.Binary, "credential", "--enrollment", enrolled))
	if res.Code == 0 {
		t.Error("the enrollment still signs in")
	}
	if res := u.ran(u.Kubehsm(t.Context(), "unenroll", enrolled, "--yes")); res.Code != 1 {
		t.Errorf("a second time: %s", res)
	}
	// the key can be enrolled anew
	if again := u.enroll("--key", r.Key, "--context", lab.Context); again.Fingerprint != r.Fingerprint {
		t.Errorf("%+v", again)
	}
}
