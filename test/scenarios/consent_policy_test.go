//go:build linux

package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestRecordOfTheKey: a record that the key has signed is the only one that serves, whatever somebody without the
// PIN does to the files.
func TestRecordOfTheKey(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	namespace := unique("policy")
	u.admin("create", "namespace", namespace)
	file := filepath.Join(u.Home, "state", "enrollments", enrolled+".json")
	easy, err := os.ReadFile(file) // with the policy session
	must.OK(t, err)
	u.consents("writes")
	u.unlock()
	tries := func(why, says string) {
		t.Helper()
		res := u.ran(u.Kubectl(t.Context(), "-n", namespace, "create", "configmap", unique("map")))
		if res.Code == 0 || !strings.Contains(res.Stderr, says) {
			t.Errorf("%s: %s", why, res)
		}
	}
	tries("signed", "no consent to create configmaps")
	record, err := os.ReadFile(file)
	must.OK(t, err)
	const unsigned = "its key has not signed its record as it is"
	for _, c := range []struct{ why, text, says string }{
		{"a version of before", string(easy), unsigned},
		{"a lowered policy", strings.Replace(string(record), `"policy": "writes"`, `"policy": "session"`, 1), unsigned},
		{"another server than the kubeconfig's", strings.Replace(string(record), `"server": "https://`, `"server": "https://localhost.`, 1),
			"was enrolled for"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil || c.text == string(record) {
			t.Fatal(err, c.text)
		}
		tries(c.why, c.says)
	}
	if out := u.ran(u.Kubehsm(t.Context(), "doctor", "-o", "json")).Stdout; !strings.Contains(out, "has not signed its record") {
		t.Error(out)
	}
	s := u.sh("kubehsm consent set " + enrolled + " --policy session --yes; echo code $?")
	s.Answer(pinPrompt, lab.PIN)
	s.WaitFor("session: signing in is enough", "Signed by the key on ", "code 0")
	s.Exit()
	if err := os.WriteFile(file, record, 0o600); err != nil { // the server and the policy of before, by a command
		t.Fatal(err)
	}
	u.ok(u.KubehsmPIN(t.Context(), lab.PIN, "consent", "set", enrolled, "--policy", "session", "--yes"))
	u.unlock()
	u.kubectl("-n", namespace, "create", "configmap", "after")
	out := u.kubehsm("audit")
	for _, want := range []string{"changed, writes, signed as version ", "changed, session, signed as version "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the audit log:\n%s", want, out)
		}
	}
}
