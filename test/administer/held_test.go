//go:build linux && cgo

package administer

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebfe/scard"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// holdVar has this program hold the card in the reader that it names for
// itself, as GnuPG's scdaemon does, until its standard input ends.
const holdVar = "KUBEHSM_TEST_HOLD"

func hold(reader string) error {
	ctx, err := scard.EstablishContext()
	if err != nil {
		return err
	}
	if _, err := ctx.Connect(reader, scard.ShareExclusive, scard.ProtocolAny); err != nil {
		return err
	}
	fmt.Println("held")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// scdaemon starts a program of that name that holds the card until end is called.
func (d *desk) scdaemon() (end func()) {
	d.t.Helper()
	self, err := os.Executable()
	must.OK(d.t, err)
	daemon := filepath.Join(d.t.TempDir(), "scdaemon")
	must.OK(d.t, os.Symlink(self, daemon))
	cmd := exec.Command(daemon)
	cmd.Env = append(os.Environ(), holdVar+"="+d.lab.Reader(0))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must.OK(d.t, err)
	out, err := cmd.StdoutPipe()
	must.OK(d.t, err)
	must.OK(d.t, cmd.Start())
	end = func() {
		in.Close()
		_ = cmd.Wait() // the second call fails
	}
	d.t.Cleanup(end)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		d.t.Fatalf("the card is not held: %q, %v", line, err)
	}
	return end
}

// TestHeld: the error names who holds the card, and the command that has it released.
func TestHeld(t *testing.T) {
	d := newDesk(t, vcard.Config{})
	end := d.scdaemon()
	code, _, errs := d.run("token", "info")
	if code != 1 || !strings.Contains(errs, "in use by another program") ||
		!strings.Contains(errs, "scdaemon (process ") ||
		!strings.Contains(errs, "`gpgconf --kill scdaemon`") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	end()
	if out := d.ok("token", "info"); !strings.Contains(out, "12345678") {
		t.Errorf("%s", out)
	}
}
