//go:build linux

package scenarios

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

// pinSource adds the source of the lab's only token to the user's configuration.
func (u *user) pinSource(source string) {
	u.t.Helper()
	var list struct{ Tokens []hsm.TokenInfo }
	must.OK(u.t, json.Unmarshal([]byte(u.kubehsm("token", "list", "-o", "json")), &list))
	for _, info := range list.Tokens {
		if info.Label != lab.Token {
			continue
		}
		u.configure(fmt.Sprintf("pinSources:\n- token: 'pkcs11:serial=%s'\n  source: %s\n", info.Serial, source))
		return
	}
	u.t.Fatal("the lab's token is not listed")
}

// TestPipeline: with a PIN source nobody is needed for anything, kubectl
// included, and a wrong PIN there is tried once.
func TestPipeline(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	pin := filepath.Join(u.Dir, "pin")
	write := func(s string) {
		must.OK(t, os.WriteFile(pin, []byte(s+"\n"), 0o600))
	}
	write(lab.PIN)
	u.pinSource("file:" + pin)
	u.parse(u.kubehsm(u.enrollArgs()...))
	u.kubehsm("agent", "stop")
	if out := u.kubectl("get", "namespaces", "-o", "name"); !strings.Contains(out, "namespace/default\n") {
		t.Errorf("%s", out)
	}
	u.kubehsm("agent", "lock")
	u.kubehsm("unlock", enrolled)
	u.kubectl("get", "namespaces")

	u.kubehsm("agent", "stop")
	write(wrongPIN)
	for range 3 {
		res := u.ran(u.Kubectl(t.Context(), "get", "namespaces"))
		if res.Code == 0 || strings.Contains(res.Stdout+res.Stderr, wrongPIN) {
			t.Errorf("with a wrong PIN: %s", res)
		}
	}
	u.wantFailure(u.ran(u.Kubehsm(t.Context(), "unlock", enrolled)), 5, "right PIN typed", "counts wrong PINs")
	u.unlock() // by hand, which sets the counter back
	u.kubehsm("agent", "lock")
	u.wantFailure(u.ran(u.Kubehsm(t.Context(), "unlock", enrolled)), 4, "put the right PIN into", "refused before")
	write(lab.PIN)
	u.kubectl("get", "namespaces")
}
