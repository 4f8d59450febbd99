//go:build unix

package cli

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/test/must"
)

// TestDescriptorsOpen: a descriptor that nobody has handed over is not read, as
// it may be a file of the token's own; nor is one read twice, as the number may
// be such a file's by then.
func TestDescriptorsOpen(t *testing.T) {
	b := newBench(t)
	r, w, err := os.Pipe()
	must.OK(t, err)
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
}
