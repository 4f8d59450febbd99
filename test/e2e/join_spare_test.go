//go:build linux

package e2e

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// TestSpareIsNotCurrent: the spare's context does not take the place of the
// primary's, and it is said how it would.
func TestSpareIsNotCurrent(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	desk := u.newDesk("")
	name := unique("jane")
	join := func(as string) lab.Result {
		t.Helper()
		file, _, _ := desk.ticket("--for", name, "--group", lab.DevelopersGroup, "--name", as)
		res := u.ran(u.KubehsmPIN(t.Context(), lab.PIN, "join", "--ticket", file, "--approve-with",
			u.Cluster.AdminKubeconfig(), "--yes"))
		u.ok(res, nil)
		return res
	}
	current := func() string { return strings.TrimSpace(u.kubectl("config", "current-context")) }
	join(joined)
	if got := current(); got != joined {
		t.Fatalf("the primary is not current, but %q", got)
	}
	const spare = joined + "-spare"
	res := join(spare)
	if got := current(); got != joined {
		t.Errorf("after the spare %q is current", got)
	}
	if said := res.Stdout + res.Stderr; !strings.Contains(said, `the current context stays "`+joined+`"`) ||
		!strings.Contains(said, "kubehsm kubeconfig use "+spare) {
		t.Errorf("it does not say so: %s", res)
	}
	if out := u.kubectl("--context", spare, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != name {
		t.Errorf("the spare is %q", out)
	}
	// Somebody else's is another matter.
	u.ok(u.KubehsmPIN(t.Context(), lab.PIN, "enroll", "--context", lab.Context, "--name", "other", "--user", unique("joe"),
		"--approve-with", u.Cluster.AdminKubeconfig(), "--yes"))
	if got := current(); got != "other" {
		t.Errorf("after another user's %q is current", got)
	}
}
