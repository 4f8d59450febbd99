//go:build cgo || windows

package pcsc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ebfe/scard"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/vcard"
)

func TestMain(m *testing.M) { os.Exit(vcard.Main(m)) }

// TestFourWaysToHaveNoCard: four messages, four remedies.
func TestFourWaysToHaveNoCard(t *testing.T) {
	seen := map[string]bool{}
	for _, err := range []error{
		serviceError(scard.ErrNoService), serviceError(scard.ErrSecurityViolation), serviceError(scard.ErrNoReadersAvailable),
		Reader{Name: "reader"}.Usable(),
	} {
		if !errors.Is(err, hsm.ErrNoToken) || hint.Of(err) == "" {
			t.Errorf("%v, hint %q", err, hint.Of(err))
		}
		seen[err.Error()+hint.Of(err)] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d different messages", len(seen))
	}
}

// TestHolders: the program that holds the card is named.
func TestHolders(t *testing.T) {
	lab := vcard.ForTest(t)
	cmd := exec.Command(need.Program(t, "opensc-tool"), "--wait", "--reader", lab.Reader(1), "--atr")
	must.OK(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	poll.Until(t, "the program has loaded PC/SC",
		func() bool { return strings.Contains(strings.Join(holders(), " "), "opensc-tool") })
	if err := busy("r"); !strings.Contains(hint.Of(err), fmt.Sprintf("opensc-tool (process %d)", cmd.Process.Pid)) {
		t.Errorf("hint %q", hint.Of(err))
	}
}
