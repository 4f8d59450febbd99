//go:build linux

package scenarios

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// TestSecondIsNotCurrent: a second context of the same user does not take the place of the
// first, and it is said how it would. A ticket for a spare makes no second context, and wants
// another token.
func TestSecondIsNotCurrent(t *testing.T) {
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
	const second = joined + "-too"
	res := join(second)
	if got := current(); got != joined {
		t.Errorf("after the second %q is current", got)
	}
	if said := res.Stdout + res.Stderr; !strings.Contains(said, `the current context stays "`+joined+`"`) ||
		!strings.Contains(said, "kubehsm kubeconfig use "+second) {
		t.Errorf("it does not say so: %s", res)
	}
	if out := u.kubectl("--context", second, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != name {
		t.Errorf("the second is %q", out)
	}
	file, _, _ := desk.ticket("--for", name, "--group", lab.DevelopersGroup, "--name", joined+"-spare")
	refused := u.ran(u.KubehsmPIN(t.Context(), lab.PIN, "join", "--ticket", file, "--yes"))
	u.wantFailure(refused, 3, "insert the token that is to be the spare", "no such token")
	refused = u.ran(u.KubehsmPIN(t.Context(), lab.PIN, "join", "--ticket", file, "--hsm", "pkcs11:token="+lab.Token, "--yes"))
	u.wantFailure(refused, 1, "another token", "on this token already")
	// Somebody else's is another matter.
	u.ok(u.KubehsmPIN(t.Context(), lab.PIN, "enroll", "--context", lab.Context, "--name", "other", "--user", unique("joe"),
		"--approve-with", u.Cluster.AdminKubeconfig(), "--yes"))
	if got := current(); got != "other" {
		t.Errorf("after another user's %q is current", got)
	}
}
