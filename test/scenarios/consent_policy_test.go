//go:build linux

package scenarios

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// TestPolicyOfTheKey: a policy that the key has signed stays in force for every enrollment of the
// key, whatever somebody without the key does to the files, until a person types the PIN to lower
// it.
func TestPolicyOfTheKey(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	namespace := unique("policy")
	u.admin("create", "namespace", namespace)
	state := filepath.Join(u.Home, "state")
	enrollment := filepath.Join(state, "enrollments", enrolled+".json")
	easy, err := os.ReadFile(enrollment) // with the policy session
	if err != nil {
		t.Fatal(err)
	}
	u.consents("writes")
	u.unlock()
	refused := func(why string) {
		t.Helper()
		res := u.ran(u.Kubectl(t.Context(), "-n", namespace, "create", "configmap", unique("map")))
		if res.Code != 1 || !strings.Contains(res.Stderr, "no consent to create configmaps") {
			t.Errorf("%s: %s", why, res)
		}
	}
	refused("signed")
	if err := os.WriteFile(enrollment, easy, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("an enrollment of before")
	records, err := filepath.Glob(filepath.Join(state, "policies", "*.json"))
	if err != nil || len(records) != 1 {
		t.Fatal(records, err)
	}
	record, err := os.ReadFile(records[0])
	if err == nil {
		err = os.Remove(records[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	refused("no record")
	u.kubehsm("agent", "stop")
	u.unlock()
	refused("no record, and another agent")
	if out := u.kubehsm("consent", "show", enrolled); !strings.Contains(out, "): writes: ") ||
		!strings.Contains(out, "The signed policy of the key is missing") {
		t.Error(out)
	}
	altered := strings.Replace(string(record), `\"policy\":\"writes\"`, `\"policy\":\"session\"`, 1)
	if err := os.WriteFile(records[0], []byte(altered), 0o600); err != nil || altered == string(record) {
		t.Fatal(err, altered)
	}
	refused("an altered record")
	if out := u.ran(u.Kubehsm(t.Context(), "doctor", "-o", "json")).Stdout; !strings.Contains(out, "was altered, or") {
		t.Error(out)
	}
	if err := errors.Join(os.Remove(records[0]), os.WriteFile(records[0], record, 0o600)); err != nil {
		t.Fatal(err)
	}
	res := u.ran(u.KubehsmPIN(t.Context(), lab.PIN, "consent", "set", enrolled, "--policy", "session", "--yes"))
	if res.Code != 5 || !strings.Contains(res.Stderr, "type the token's PIN: run the command in a terminal") {
		t.Errorf("a PIN that nobody typed: %s", res)
	}
	refused("a PIN that nobody typed")

	s := u.sh("kubehsm consent set " + enrolled + " --policy session --yes; echo code $?")
	s.Answer(pinPrompt, lab.PIN)
	s.WaitFor("session: signing in is enough", "Signed by the key: version 2", "code 0")
	s.Exit()
	u.unlock()
	u.kubectl("-n", namespace, "create", "configmap", "after")
	out := u.kubehsm("audit")
	for _, want := range []string{"signed as version 1", "signed as version 2", "(less strict)"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the audit log:\n%s", want, out)
		}
	}
	if strings.Contains(out, "WRONG SIGNATURE") {
		t.Error(out)
	}
}
