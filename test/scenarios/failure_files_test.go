//go:build linux

package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/need"
)

func TestCorruptedState(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	u.kubehsm("agent", "stop")
	state := filepath.Join(u.Home, "state")
	certificates, err := filepath.Glob(filepath.Join(state, "certificates", "*", enrolled+".pem"))
	if err != nil || len(certificates) != 1 {
		t.Fatalf("certificates %q: %v", certificates, err)
	}
	credential := []string{"credential", "--enrollment", enrolled}
	for name, tc := range map[string]struct {
		file    string
		content string
		args    []string
		text    string
	}{
		"enrollment":        {filepath.Join(state, "enrollments", enrolled+".json"), "{\"name\": \"prod-h", credential, enrolled},
		"empty enrollment":  {filepath.Join(state, "enrollments", enrolled+".json"), "", credential, enrolled},
		"certificate":       {certificates[0], "-----BEGIN CERTIFICATE-----\nbm8=\n-----END CERTIFICATE-----\n", credential, "certificate"},
		"enrollment record": {filepath.Join(state, "enrolling", enrolled+".json"), "\x00\x00", u.enrollArgs("--name", enrolled), "record"},
		"configuration":     {filepath.Join(u.Home, "config.yaml"), "modules: {", []string{"token", "list"}, "config.yaml"},
		"another's setting": {filepath.Join(u.Home, "config.yaml"), "color: red\n", []string{"token", "list"}, "color"},
	} {
		t.Run(name, func(t *testing.T) {
			u := u.in(t)
			good, err := os.ReadFile(tc.file)
			must(t, err)
			defer func() {
				must(t, os.WriteFile(tc.file, good, 0o600))
			}()
			must(t, os.WriteFile(tc.file, []byte(tc.content), 0o600))
			before, tokens, kubeconfig := u.files(tc.file), u.files(u.keys()...), u.files(u.Kubeconfig)
			res := u.ran(u.Run(t.Context(), lab.Run{Env: []string{execInfo}, PIN: lab.PIN}, u.Binary, tc.args...))
			u.wantFailure(res, 1, "", tc.text)
			u.unchanged(before, tc.file)
			u.unchanged(tokens, u.keys()...)
			u.unchanged(kubeconfig, u.Kubeconfig)
			u.kubehsm("agent", "stop")
		})
	}
	// What the hints say mends it.
	for _, file := range append(certificates, filepath.Join(state, "enrollments", enrolled+".json")) {
		must(t, os.WriteFile(file, []byte("{"), 0o600))
	}
	u.ok(u.KubehsmPIN(t.Context(), lab.PIN, "enroll", "--name", enrolled, "--yes"))
	u.unlock()
	u.kubectl("get", "namespaces")
}

// TestReadOnlyKubeconfig enrolls where the kubeconfig's folder cannot be written: that is refused
// before a key is made, and works as soon as it can be written.
func TestReadOnlyKubeconfig(t *testing.T) {
	t.Parallel()
	unshare := need.Program(t, "unshare")
	u := newUser(t, lab.Options{})
	dir := filepath.Join(u.Dir, "readonly")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(u.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "config")
	if err := os.WriteFile(kubeconfig, b, 0o600); err != nil {
		t.Fatal(err)
	}
	before := u.files(dir)
	env := []string{"KUBECONFIG=" + kubeconfig}
	// A mount of the test's own: to root, modes mean nothing.
	script := `mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" || exit 99; exec kubehsm "$@" --pin-fd 3`
	res := u.ran(u.Run(t.Context(), lab.Run{Env: env, PIN: lab.PIN}, unshare,
		append([]string{"-Urm", "/bin/sh", "-c", script, dir}, u.enrollArgs()...)...))
	if res.Code == 99 || strings.Contains(res.Stderr, "unshare:") {
		need.Missing(t, "this system does not let a user make mounts of their own: "+res.Stderr)
	}
	u.wantFailure(res, 1, "make ", "the kubeconfig is read-only", "read-only file system")
	u.unchanged(before, dir)
	if keys := u.kubehsm("key", "list", "-o", "json"); strings.Contains(keys, lab.Enrolled) {
		t.Errorf("a key was made in vain: %s", keys)
	}

	r := u.parse(u.ok(u.Run(t.Context(), lab.Run{Env: env, PIN: lab.PIN}, u.Binary,
		append(u.enrollArgs(), "--pin-fd", "3")...)))
	if r.User != "jane" || r.Kubeconfig != kubeconfig {
		t.Errorf("it enrolled %+v", r)
	}
	if out := u.ok(u.Run(t.Context(), lab.Run{Env: env}, u.Cluster.Kubectl(), "get", "namespaces", "-o",
		"name")); !strings.Contains(out, "default") {
		t.Errorf("kubectl: %s", out)
	}
}
