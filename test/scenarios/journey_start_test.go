//go:build linux

package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

// TestJourneyFirstStart: somebody starts it on a machine that has nothing, is
// told what there is to do, does it, and has a token that can be used.
func TestJourneyFirstStart(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	config := filepath.Join(u.Home, "config.yaml")
	module, err := os.ReadFile(config)
	must(t, err)
	must(t, os.WriteFile(config, []byte("onlyModules: true\n"), 0o600))
	made, err := filepath.Glob(filepath.Join(u.Soft.Tokens, "*"))
	must(t, err)
	for _, path := range append(made, u.Kubeconfig) {
		must(t, os.RemoveAll(path))
	}
	u.KeepSecret(t, u.secrets...)

	s := u.terminal(u.Binary)
	s.WaitFor("Which cluster is the key for?", "no contexts")
	lab.AtTokens(s)
	s.WaitFor("No token found.", "config.yaml")
	s.Type("e")
	s.WaitFor("enroll: no token is selected")
	s.Type("6")
	s.WaitFor("signing in", "✗ failed   Tokens", "no token was found", "To mend it: plug one in")
	s.Press(term.Enter)
	s.WaitFor("╭─ Tokens", "c copy fix")
	s.Press(term.Escape)
	s.WaitGone("╭─ Tokens")
	s.Type("q")
	if code := s.Exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}

	must(t, os.WriteFile(config, module, 0o600)) // mend the configuration
	s = u.terminal(u.Binary)
	lab.AtTokens(s)
	s.WaitFor("SoftHSM slot", "not initialized")
	s.Press(term.Enter)
	s.WaitFor("It is not initialized yet: I initializes it.", "I initialize")
	s.Type("p")
	s.WaitFor("change PIN: the token is not initialized yet")
	s.Type("I")
	s.WaitFor("Initialize the token", "Label")
	s.Press(term.CtrlU)
	s.Press(term.Enter)
	s.WaitFor("✗ 1 to 32 bytes")
	s.Type("mine")
	s.Press(term.Enter)
	lab.Fill(s, "New SO PIN of SoftHSM slot", "SO PIN", lab.SOPIN)
	lab.Fill(s, "New SO PIN of SoftHSM slot", "Repeat it", lab.SOPIN)
	lab.Fill(s, "New PIN of", "PIN", lab.PIN)
	lab.Fill(s, "New PIN of", "Repeat it", lab.PIN)
	s.WaitFor("the token is initialized")
	s.Press(term.Escape)
	s.WaitFor("1 Tokens", "mine", "PIN set")
	s.Type("q")
	s.Exit()
	if out := u.kubehsm("token", "list"); !strings.Contains(out, "mine") {
		t.Errorf("the tokens: %s", out)
	}
	u.ok(u.KubehsmPIN(t.Context(), lab.PIN, "key", "generate", "--token", "pkcs11:token=mine", "--label", "k"))
}
