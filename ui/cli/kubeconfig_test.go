package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
)

const sourceKubeconfig = `# mine
apiVersion: v1
kind: Config
clusters:
- name: prod
  cluster: {server: "https://127.0.0.1:1"}
users:
- name: me
  user: {token: geheim}
contexts:
- name: prod
  context: {cluster: prod, user: me}
current-context: prod
`

// kubeconfig writes the user's kubeconfig and returns its path.
func (b *bench) kubeconfig() string {
	b.t.Helper()
	path := filepath.Join(b.home, "kubeconfig")
	must.OK(b.t, os.WriteFile(path, []byte(sourceKubeconfig), 0o600))
	return path
}

func (b *bench) read(path string) string {
	b.t.Helper()
	c, err := os.ReadFile(path)
	must.OK(b.t, err)
	return string(c)
}

func TestKubeconfigSetAndUndo(t *testing.T) {
	b := newBench(t)
	path := b.kubeconfig()
	b.enrolled("prod-hsm", "https://127.0.0.1:1", hsm.Slot{})

	if out := b.ok("kubeconfig", "set", "--dry-run"); !strings.Contains(out, "+  - name: prod-hsm") &&
		!strings.Contains(out, "+- name: prod-hsm") {
		t.Errorf("no difference shown: %s", out)
	}
	b.fails(5, "with --yes once you have seen", "kubeconfig", "set", "prod-hsm")
	b.ask = hsmtest.NewScript(t, hsmtest.No())
	b.fails(130, "nothing was changed", "kubeconfig", "set", "prod-hsm")
	if b.read(path) != sourceKubeconfig {
		t.Fatal("the file was changed without a yes")
	}
	code, out, errs := b.run("kubeconfig", "set", "prod-hsm", "--yes")
	if code != 0 || !strings.Contains(out, "Wrote "+path) || strings.Contains(errs, "geheim") {
		t.Fatalf("exit code %d, %q, %q", code, out, errs)
	}
	if now := b.read(path); !strings.HasPrefix(now, "# mine\n") || !strings.Contains(now, "current-context: prod-hsm") {
		t.Errorf("%s", now)
	}
	if out := b.ok("kubeconfig", "set", "prod-hsm"); out != "Nothing to change.\n" {
		t.Errorf("%q", out)
	}
	contexts := document(t, b.ok("kubeconfig", "list", "-o", "json"))["contexts"].([]any)
	ours := map[string]any{}
	for _, c := range contexts {
		if c := c.(map[string]any); c["name"] == "prod-hsm" {
			ours = c
		}
	}
	if len(contexts) != 2 || ours["ours"] != true || ours["enrollment"] != "prod-hsm" || ours["current"] != true {
		t.Errorf("%v", contexts)
	}
	if out := b.ok("kubeconfig", "list"); !strings.Contains(out, "*         prod-hsm") {
		t.Errorf("%s", out)
	}
	if doc := document(t, b.ok("kubeconfig", "undo", "--yes", "-o", "json")); doc["changed"] != true {
		t.Errorf("%v", doc)
	}
	if b.read(path) != sourceKubeconfig {
		t.Errorf("undo left %s", b.read(path))
	}
}

func TestKubeconfigErrors(t *testing.T) {
	b := newBench(t)
	b.fails(1, "nothing is enrolled yet", "kubeconfig", "set")
	b.fails(1, "no such enrollment", "kubeconfig", "set", "nope")
	b.fails(1, "no change to undo", "kubeconfig", "undo")
	if out := b.ok("kubeconfig", "list"); out != "The kubeconfig names no context.\n" {
		t.Errorf("%q", out)
	}
	b.fails(1, "/nonexistent", "kubeconfig", "list", "--kubeconfig", "/nonexistent")
}

func TestEnrollDryRun(t *testing.T) {
	b := newBench(t)
	path := b.kubeconfig()
	out := b.ok("enroll", "--user", "jane", "--group", "dev", "--dry-run", "--request-timeout", "1")
	for _, want := range []string{"prod-hsm", "https://127.0.0.1:1 (context prod)", "jane", "dev", "trial",
		"new, ecdsa-p256", path,
		"kubehsm enroll --name prod-hsm", "the cluster cannot be asked"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in the review:\n%s", want, out)
		}
	}
	if b.read(path) != sourceKubeconfig {
		t.Error("a dry run changed the kubeconfig")
	}
	if keys := document(t, b.ok("key", "list", "-o", "json"))["keys"].([]any); len(keys) != 0 {
		t.Errorf("a dry run made keys: %v", keys)
	}
	b.fails(1, "error: ask who the user is: cannot reach the API server", "enroll", "--user", "jane", "--yes")
	b.fails(5, "with --yes", "enroll", "--user", "jane", "--key", "pkcs11:token=trial;object=x")
	b.fails(1, "no user name is given", "enroll")
}

func TestKubeconfigUse(t *testing.T) {
	b := newBench(t)
	path := b.kubeconfig()
	b.enrolled("prod-hsm", "https://127.0.0.1:1", hsm.Slot{})
	b.ok("kubeconfig", "set", "prod-hsm", "--keep-current", "--yes")
	before := b.read(path)

	if out := b.ok("kubeconfig", "use", "prod-hsm", "--dry-run"); !strings.Contains(out, "+current-context: prod-hsm") {
		t.Errorf("no difference shown: %s", out)
	}
	b.fails(5, "with --yes once you have seen", "kubeconfig", "use", "prod-hsm")
	if b.read(path) != before {
		t.Fatal("the file was changed without a yes")
	}
	b.ok("kubeconfig", "use", "prod-hsm", "--yes")
	if got := b.read(path); got != strings.Replace(before, "current-context: prod\n", "current-context: prod-hsm\n", 1) {
		t.Errorf("got %s", got)
	}
	if out := b.ok("kubeconfig", "use", "prod-hsm"); out != "Nothing to change.\n" {
		t.Errorf("%q", out)
	}
	b.ok("kubeconfig", "undo", "--yes")
	if b.read(path) != before {
		t.Error("it was not taken back")
	}
	b.fails(1, "no such context", "kubeconfig", "use", "nowhere")
	b.fails(2, "", "kubeconfig", "use")
}
