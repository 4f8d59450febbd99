//go:build unix

package cli

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui/prompt"
)

// TestDescriptorsOpen: a descriptor that nobody has handed over is not read, as
// it may be a file of the token's own; nor is one read twice, as the number may
// be such a file's by then.
func TestDescriptorsOpen(t *testing.T) {
	b := newBench(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	ours := strconv.Itoa(int(r.Fd())) // a descriptor that Go opens is closed by Go
	b.fails(2, "--pin-fd: descriptor "+ours+": it is not open", "key", "generate", "--label", "x", "--pin-fd", ours)
	b.fails(2, "--new-pin-fd: descriptor 9999: it is not open", "token", "pin", "change", "--new-pin-fd", "9999")
	b.fails(2, "--pin-fd: descriptor 2: it is for output", "key", "generate", "--label", "x", "--pin-fd", "2")
	if _, err := unix.FcntlInt(r.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	b.fails(2, "--pin-fd and --new-pin-fd: descriptor "+ours+" is read only once", "token", "pin", "change", "--pin-fd",
		ours, "--new-pin-fd", ours)
	if n := b.token.Tries(); n != 3 {
		t.Errorf("%d tries left of 3", n)
	}
	// A PIN that nobody types lowers no policy, and the command says so.
	slot, _ := b.keyWithCertificate()
	e := b.enrolled("prod-hsm", "https://api.example:6443", slot)
	e.Policy = consent.Writes
	dirs, err := home.FromEnv(func(k string) string { return b.env[k] })
	if err := errors.Join(err, enrollment.NewStore(dirs).Save(e)); err != nil {
		t.Fatal(err)
	}
	b.ask = prompt.None()
	b.fails(5, "note: --pin-fd does not count here", "consent", "set", "prod-hsm", "--policy", "session", "--yes",
		"--pin-fd", ours)
}
