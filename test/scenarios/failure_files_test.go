//go:build linux

package scenarios

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
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
			must.OK(t, err)
			defer func() {
				must.OK(t, os.WriteFile(tc.file, good, 0o600))
			}()
			must.OK(t, os.WriteFile(tc.file, []byte(tc.content), 0o600))
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
		must.OK(t, os.WriteFile(file, []byte("{"), 0o600))
	}
	u.ok(u.KubehsmPIN(t.Context(), lab.PIN, "enroll", "--name", enrolled, "--yes"))
	u.unlock()
	u.kubectl("get", "namespaces")
}
