//go:build linux

package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// TestRevokeKilled: killed by SIGKILL after any of its operations, the command leaves what was
// revoked in force, and the same command finishes the work.
func TestRevokeKilled(t *testing.T) {
	t.Parallel()
	u := newMortal(t)
	certificate := func() (kubeconfig, file string) {
		kubeconfig, err := u.Cluster.KubeconfigFor(unique("jane"), lab.FilersGroup)
		if err != nil {
			t.Fatal(err)
		}
		file = filepath.Join(t.TempDir(), "certificate.pem")
		if err := os.WriteFile(file, u.certificateIn(kubeconfig), 0o600); err != nil {
			t.Fatal(err)
		}
		return kubeconfig, file
	}
	refused := func(kubeconfig string) bool {
		res := u.ran(u.Run(t.Context(), lab.Run{Env: []string{"KUBECONFIG=" + kubeconfig}, Stdin: requestFor(t, unique("probe"), unique("x"), "", 0)},
			u.Cluster.Kubectl(), "create", "--dry-run=server", "-f", "-"))
		return res.Code != 0 && strings.Contains(res.Stderr, "was revoked on")
	}
	revoke := func(file string, at int) []string {
		return u.mortal([]string{"helpdesk", "revoke", "--kubeconfig", u.Cluster.AdminKubeconfig(), "--certificate", file, "--yes"}, "",
			at)
	}
	first, file := certificate()
	operations := revoke(file, 0)
	if len(operations) < 5 {
		t.Fatalf("operations %q", operations)
	}
	for at := 1; at <= len(operations); at++ {
		next, file := certificate()
		revoke(file, at)
		if !refused(first) {
			t.Fatalf("killed after operation %d of %q: what was revoked writes", at, operations)
		}
		revoke(file, 0)
		if !refused(next) {
			t.Errorf("killed after operation %d of %q: the same command did not finish", at, operations)
		}
	}
}
