//go:build linux

package scenarios

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestEndIsToldLater: who comes back is told why the request was denied, or
// refused by its signer, before another is filed; and the approver's words do
// nothing to the terminal.
func TestEndIsToldLater(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("\x1b[2J\x07who is jane? ", 100<<10/17)
	for _, c := range []struct{ name, condition, reason, message, want string }{
		{"denied", "Denied", "NoSuchPerson", "ask for group dev only", "was denied: NoSuchPerson: ask for group dev only"},
		{"refused by the signer", "Failed", "SignerValidationFailure", "usages are not allowed", "was not signed: SignerValidationFailure: usages are not allowed"},
		{"denied with a lot of words", "Denied", "No\x1b[1mPerson", huge, "who is jane?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, lab.Options{})
			begin := []string{"enroll", "--context", lab.Context, "--user", unique("jane"), "--yes", "--timeout", "1s"}
			res := u.ran(u.KubehsmPIN(t.Context(), lab.PIN, begin...))
			u.wantWords(res.Stderr, "nothing is lost", "stopped waiting")
			request := u.pending(t)
			patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{
				map[string]any{"type": c.condition, "status": "True", "reason": c.reason, "message": c.message}}}})
			must.OK(t, err)
			sub := map[string]string{"Denied": "approval", "Failed": "status"}[c.condition]
			res = u.ran(u.Run(t.Context(), lab.Run{Stdin: string(patch),
				Env: []string{"KUBECONFIG=" + u.Cluster.AdminKubeconfig()}}, u.Cluster.Kubectl(),
				"patch", "csr", request, "--subresource="+sub, "--type=merge", "--patch-file=/dev/stdin"))
			if res.Code != 0 {
				t.Fatal(res)
			}
			tell := func(args ...string) {
				t.Helper()
				res := u.ran(u.KubehsmPIN(t.Context(), lab.PIN, args...))
				u.wantWords(res.Stderr, "new", c.want)
				if res.Code != 1 || strings.ContainsAny(res.Stderr, "\x1b\x07") || len(res.Stderr) > 16<<10 {
					t.Errorf("%q: exit code %d, %d bytes: %.2000s", args, res.Code, len(res.Stderr), res.Stderr)
				}
			}
			tell("csr", "wait", request)
			tell(begin...)
			var filed []string
			for _, r := range parse[struct {
				Requests []struct{ Name, Fingerprint string }
			}](t, u.kubehsm("csr", "list", "-o", "json", "--context", lab.Context)).Requests {
				if r.Fingerprint == u.fingerprint(t) {
					filed = append(filed, r.Name)
				}
			}
			if len(filed) != 1 || filed[0] != request {
				t.Errorf("another was filed before it was told: %q", filed)
			}
			tell("csr", "wait", request)
			out := u.ran(u.KubehsmPIN(t.Context(), lab.PIN,
				append(begin[:len(begin)-2:len(begin)-2], "--approve-with", u.Cluster.AdminKubeconfig())...))
			if out.Code != 0 || !strings.Contains(out.Stderr+out.Stdout, "a new one is filed") {
				t.Errorf("once it was told: %s", out)
			}
		})
	}
}
