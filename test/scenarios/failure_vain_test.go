//go:build linux

package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestNoKeyInVain: what is certain to come to nothing leaves no key on the token
// that would be in the way of the next try.
func TestNoKeyInVain(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	kubeconfig, keys := u.files(u.Kubeconfig), len(u.keys())
	written := func(name, text string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), name)
		must.OK(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	b, err := os.ReadFile(u.Kubeconfig)
	must.OK(t, err)
	away := controlplane.BalancerForTest(t, "127.0.0.1:0", u.Cluster.Server())
	url := away.URL()
	away.Close()
	down := written("down", strings.ReplaceAll(string(b), u.Cluster.Server(), url))
	if text, err := os.ReadFile(down); err != nil || !strings.Contains(string(text), url) {
		t.Fatalf("%v\n%s", err, text)
	}
	bob, err := u.Cluster.KubeconfigFor(unique("bob"))
	must.OK(t, err)
	for name, c := range map[string]struct {
		args []string
		says string
	}{ // none is asked for a PIN
		"API server":                  {[]string{"--kubeconfig", down}, "cannot reach the API server"},
		"API server, forecast or not": {[]string{"--kubeconfig", down, "--accept-risk", "forecast"}, "cannot reach the API server"},
		"approver's file":             {[]string{"--approve-with", filepath.Join(t.TempDir(), "none")}, "approve: "},
		"approver's server":           {[]string{"--approve-with", down}, "approve: "},
		"approver who may not":        {[]string{"--approve-with", bob}, "not allowed"},
	} {
		args := append([]string{"enroll", "--user", "jane", "--group", lab.DevelopersGroup, "--yes", "-o", "json"}, c.args...)
		res := u.ran(u.Kubehsm(t.Context(), args...))
		if res.Code != 1 || !strings.Contains(res.Stderr, c.says) || !strings.Contains(res.Stderr, "kubehsm key generate") {
			t.Errorf("%s: %s", name, res)
		}
		if got := len(u.keys()); got != keys {
			t.Fatalf("%s: %d keys on the token, %d before", name, got, keys)
		}
		u.unchanged(kubeconfig, u.Kubeconfig)
		u.nothingHalfWritten()
	}
	must.OK(t, os.Chmod(u.Kubeconfig, 0o400)) // which kubehsm heeds, as root too
	u.wantFailure(u.ran(u.Kubehsm(t.Context(), u.enrollArgs()...)), 1, "make ", "the kubeconfig is read-only")
	if got := len(u.keys()); got != keys {
		t.Fatalf("%d keys on the token, %d before", got, keys)
	}
	must.OK(t, os.Chmod(u.Kubeconfig, 0o600))
	r := u.enroll() // the same name: nothing is in its way
	if r.User != "jane" {
		t.Errorf("%+v", r)
	}

	// A ticket that is no more makes no key either.
	_, id, text := u.newDesk("").ticket("--for", unique("jane"), "--name", joined)
	keys = len(u.keys())
	plan := u.ran(u.Run(t.Context(), lab.Run{Stdin: text}, u.Binary, "join", "--ticket", "-", "--approve-with",
		filepath.Join(t.TempDir(), "none"), "--yes"))
	if plan.Code != 1 || len(u.keys()) != keys {
		t.Errorf("join, the approver's file: %s", plan)
	}
	u.admin("delete", "secret", "-n", "kube-system", "bootstrap-token-"+id)
	u.refused(text)
	res := u.ran(u.Run(t.Context(), lab.Run{Stdin: text}, u.Binary, "join", "--ticket", "-", "--yes"))
	if res.Code != 1 || !strings.Contains(res.Stderr, "expired or was deleted") || len(u.keys()) != keys {
		t.Errorf("join, with a ticket that is ended: %s", res)
	}
}
