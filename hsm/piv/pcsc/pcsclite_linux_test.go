//go:build cgo

package pcsc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// TestLibraryInstalledLater: without the smart card library there is no service,
// until somebody has installed it. The program that is tried is one that, other than
// this, has nothing else in it that is linked to the library.
func TestLibraryInstalledLater(t *testing.T) {
	vcard.ForTest(t)
	program := filepath.Join(t.TempDir(), "readers")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program,
		"./testdata/readers").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	library := loaded(t, "libpcsclite.so.1")
	nothing := filepath.Join(t.TempDir(), "nothing")
	must.OK(t, os.WriteFile(nothing, nil, 0o600))
	must.OK(t, unix.Mount(nothing, library, "", unix.MS_BIND, "")) // the namespace is ours
	hidden := true
	show := func() {
		if hidden {
			must.OK(t, unix.Unmount(library, unix.MNT_DETACH))
		}
		hidden = false
	}
	defer show()

	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must.OK(t, err)
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	defer func() { must.OK(t, cmd.Wait()) }()
	defer in.Close() // the program ends with its input
	lines := bufio.NewScanner(out)
	says := func(want string) {
		t.Helper()
		if _, err := fmt.Fprintln(in); err != nil || !lines.Scan() || lines.Text() != want {
			t.Errorf("%q, %v; want %q", lines.Text(), err, want)
		}
	}
	says(fmt.Sprint(0, ErrNoService))
	says(fmt.Sprint(0, ErrNoService))
	show()
	says(fmt.Sprint(vcard.Slots, nil)) // the readers of the lab
}

// loaded is the file of a library that this process has loaded.
func loaded(t *testing.T, name string) string {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	must.OK(t, err)
	for line := range strings.Lines(string(maps)) {
		if at := strings.IndexByte(line, '/'); at >= 0 && strings.Contains(line[at:], "/"+name) {
			return strings.TrimSpace(line[at:])
		}
	}
	t.Fatalf("%s is not loaded", name)
	return ""
}
