//go:build linux

package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
)

// killed is the program with the faults of testdata/fault.go, built once.
var killed struct {
	sync.Once
	dir, binary string
	err         error
}

// faultPoints says where the faults are put: in these files, old text for new.
var faultPoints = map[string][2]string{
	"hsm/shared/atomicfile/file.go": {"os.Rename(", "fault.Rename("},
	"csr/api.go":                    {"	a := &api{", "	transport.Transport = fault.Wrap(transport.Transport)\n	a := &api{"},
	"kubeconfig/discovery/fetch.go": {"func (t target) client() *http.Client {\n",
		"func (t target) client() *http.Client {\n	c := t.unwrapped()\n	c.Transport = fault.Wrap(c.Transport)\n	return c\n}\n\nfunc (t target) unwrapped() *http.Client {\n"},
}

// buildKilled builds it with the go command's -overlay: the sources of the
// product stay as they are.
func buildKilled(ctx context.Context, dir string) (string, error) {
	root, err := controlplane.Checkout()
	if err != nil {
		return "", err
	}
	fault, err := filepath.Abs(filepath.Join("testdata", "fault.go"))
	if err != nil {
		return "", err
	}
	replace := map[string]string{filepath.Join(root, "test", "fault", "fault.go"): fault}
	for name, point := range faultPoints {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		text := string(b)
		if strings.Count(text, point[0]) != 1 || strings.Count(text, "\nimport (\n") != 1 {
			return "", fmt.Errorf("%s has changed: where is %q now?", name, point[0])
		}
		text = strings.Replace(text, point[0], point[1], 1)
		text = strings.Replace(text, "\nimport (\n", "\nimport (\n	\"github.com/kubehsm/kubehsm/test/fault\"\n", 1)
		changed := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, name)] = changed
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file, out := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "kubehsm")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", file, "-o", out, ".")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build with faults: %w\n%s", err, said)
	}
	return out, nil
}

// newMortal is a user whose program can be killed at any operation.
func newMortal(t *testing.T) *user {
	t.Helper()
	killed.Do(func() {
		if killed.dir, killed.err = os.MkdirTemp("", "kubehsm-fault-"); killed.err == nil {
			killed.binary, killed.err = buildKilled(context.WithoutCancel(t.Context()), killed.dir)
		}
	})
	if killed.err != nil {
		t.Fatal(killed.err)
	}
	u := newJoiner(t, lab.Options{})
	for _, name := range []string{"kubehsm", "kubectl-hsm"} {
		path := filepath.Join(filepath.Dir(u.Binary), name)
		must.OK(t, os.Remove(path))
		must.OK(t, os.Link(killed.binary, path))
	}
	return u
}

// TestKilledAnywhere kills enroll and join after every write of a file and every
// answer of an API server, and runs them again: they come to the same end.
func TestKilledAnywhere(t *testing.T) {
	for verb, args := range map[string]func(u *user, name string) (args []string, stdin string){
		"enroll": func(u *user, name string) ([]string, string) {
			return []string{"enroll", "--name", joined, "--context", lab.Context, "--user", name, "--group", lab.DevelopersGroup,
				"--approve-with", u.Cluster.AdminKubeconfig(), "--yes", "-o", "json"}, ""
		},
		"join": func(u *user, name string) ([]string, string) {
			_, _, text := u.newDesk("").ticket("--for", name, "--group", lab.DevelopersGroup, "--name", joined)
			return []string{"join", "--ticket", "-", "--approve-with", u.Cluster.AdminKubeconfig(), "--yes", "-o", "json"}, text
		},
	} {
		t.Run(verb, func(t *testing.T) {
			// Once without a fault, to count the operations.
			u := newMortal(t)
			name := unique("jane")
			line, stdin := args(u, name)
			operations := u.mortal(line, stdin, 0)
			want := end{keys: 1, requests: 1, entries: 3, enrollments: 1, signedIn: true}
			if got := u.wholeEnd(name); got != want {
				t.Fatalf("it ended as %+v, want %+v", got, want)
			}
			if len(operations) < 10 {
				t.Fatalf("only %d operations: %q", len(operations), operations)
			}
			t.Logf("%d operations: %q", len(operations), operations)
			for at := 1; at <= len(operations); at++ {
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					t.Parallel()
					u := newMortal(t)
					name := unique("jane")
					line, stdin := args(u, name)
					u.mortal(line, stdin, at)
					u.mortal(line, stdin, 0)
					if got := u.wholeEnd(name); got != want {
						t.Errorf("killed after operation %d of %q, it ended as %+v, want %+v", at, operations, got, want)
					}
				})
			}
		})
	}
}

// mortal runs the command, which dies after its operation at; 0 lets it live,
// and it must succeed. It returns the operations.
func (u *user) mortal(line []string, stdin string, at int) []string {
	u.t.Helper()
	log := filepath.Join(u.t.TempDir(), "operations")
	env := []string{"FAULT_LOG=" + log, fmt.Sprintf("FAULT_AT=%d", at)}
	run := func() lab.Result {
		return u.ran(u.Run(u.t.Context(), lab.Run{PIN: lab.PIN, Stdin: stdin, Env: env}, u.Binary,
			append(line, "--pin-fd", "3")...))
	}
	res := run()
	if lock := u.Kubeconfig + ".lock"; at == 0 && res.Code != 0 && strings.Contains(res.Stderr, lock) {
		// Killed while it held the lock, which nobody may break unasked.
		must.OK(u.t, os.Remove(lock))
		res = run()
	}
	// Another lab of this machine may have the bridge's port for a moment.
	taken := func() bool { return at == 0 && strings.Contains(res.Stderr, "the bridge's port is taken") }
	if taken() && !poll.Within(poll.Patience, func() bool { res = run(); return !taken() }) {
		u.t.Log("the bridge's port stays taken")
	}
	b, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		u.t.Fatal(err)
	}
	operations := strings.Split(strings.TrimSpace(string(b)), "\n")
	// How many there are varies with what is polled: the last may not have come.
	if (at == 0 || len(operations) < at) != (res.Code == 0) {
		u.t.Fatalf("killed after operation %d: %s", at, res)
	}
	return operations
}

// end is what must be the same however often a command was killed.
type end struct {
	keys, requests, entries, enrollments int
	signedIn                             bool
}

func (u *user) wholeEnd(name string) end {
	u.t.Helper()
	var e end
	keys := parse[struct{ Keys []struct{ Label string } }](u.t,
		u.ok(u.KubehsmPIN(u.t.Context(), lab.PIN, "key", "list", "-o", "json")))
	for _, k := range keys.Keys {
		if k.Label == joined {
			e.keys++
		}
	}
	for _, line := range strings.Fields(u.admin("get", "csr", "-o",
		"jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}")) {
		if strings.HasPrefix(line, name) {
			e.requests++
		}
	}
	config, err := os.ReadFile(u.Kubeconfig)
	must.OK(u.t, err)
	e.entries = strings.Count(string(config), "name: "+joined+"\n")
	stored, err := filepath.Glob(filepath.Join(u.Home, "state", "enrollments", "*.json"))
	must.OK(u.t, err)
	e.enrollments = len(stored)
	who := u.kubectl("--context", joined, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
	e.signedIn = who == name
	return e
}
