//go:build linux

package scenarios

import (
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

func TestInterruptedPrompt(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	u.kubehsm("agent", "lock")
	state, kubeconfig, keys := u.files(u.enrollments()...), u.files(u.Kubeconfig), u.files(u.keys()...)
	for _, command := range []string{"kubehsm unlock " + enrolled, "kubectl get namespaces"} {
		t.Run(command, func(t *testing.T) {
			u := u.in(t)
			u.kubehsm("agent", "stop") // forgets the refusal too
			// The shell outlives ctrl-c, as one that a person types in does.
			s := u.sh("trap : INT; " + command + "; echo code $?; read line; echo $line")
			s.WaitFor(pinPrompt)
			must(t, s.TypeSecret("739"))
			s.Press(term.CtrlC)
			s.WaitFor("code 130")
			s.WaitUntil("the terminal is as before", func(term.Frame) bool { return s.Cooked() })
			s.Type("typed after it\r")
			// The echo, and what was read; the plugin, which kubectl does not wait for, may
			// say its word between them.
			s.WaitUntil("what is typed is read", func(f term.Frame) bool {
				return strings.Count(f.Text(),
					"typed after it") == 2
			})
			s.Exit()
		})
	}
	u.unchanged(state, u.enrollments()...)
	u.unchanged(kubeconfig, u.Kubeconfig)
	u.unchanged(keys, u.keys()...)
	u.unlock()
	u.kubectl("get", "namespaces")
}

// expire puts a certificate in place of the user's that the cluster signed for
// the same key and that ended an hour ago.
func (u *user) expire(t *testing.T) {
	t.Helper()
	chains, err := filepath.Glob(filepath.Join(u.Home, "state", "certificates", "*", enrolled+".pem"))
	if err != nil || len(chains) != 1 {
		t.Fatalf("certificates %q: %v", chains, err)
	}
	b, err := os.ReadFile(chains[0])
	must(t, err)
	valid, err := csr.ParseCertificate(b)
	must(t, err)
	der, err := u.Cluster.SignClient(valid.Leaf.PublicKey, valid.Leaf.Subject.CommonName, valid.Leaf.Subject.Organization,
		time.Now().Add(-48*time.Hour), time.Now().Add(-time.Hour))
	must(t, err)
	expired := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	must(t, os.WriteFile(chains[0], expired, 0o600))
	record := filepath.Join(u.Home, "state", "enrolling", enrolled+".json")
	if b, err = os.ReadFile(record); err != nil {
		t.Fatal(err)
	}
	var j map[string]any
	must(t, json.Unmarshal(b, &j))
	j["certificate"] = expired
	if b, err = json.Marshal(j); err != nil {
		t.Fatal(err)
	}
	must(t, os.WriteFile(record, b, 0o600))
}
