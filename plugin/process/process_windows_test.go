package process

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
)

// TestChild: a process is known by its number and its start, as long as it runs.
func TestChild(t *testing.T) {
	const child = "KUBEHSM_TEST_CHILD"
	if os.Getenv(child) != "" {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until the parent is done
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.count", "1")
	cmd.Env = append(os.Environ(), child+"=1")
	in, err := cmd.StdinPipe()
	check(t, err)
	check(t, cmd.Start())
	p := Of(cmd.Process.Pid)
	if !p.Known() || !p.Alive() || p == This() {
		t.Errorf("%+v", p)
	}
	if all := slices.Collect(p.Ancestors()); !slices.Contains(all, This()) {
		t.Errorf("its ancestors are %v, not %v", all, This())
	}
	if args := Arguments(p.PID); len(args) == 0 || filepath.Base(args[0]) != filepath.Base(os.Args[0]) {
		t.Errorf("its arguments are %q", args)
	}
	if image := Image(p.PID); !strings.EqualFold(filepath.Base(image), filepath.Base(os.Args[0])) {
		t.Errorf("it runs %q", image)
	}
	own, err := windows.GetCurrentProcessToken().GetTokenUser()
	check(t, err)
	if user, err := User(p.PID); err != nil || !user.Equals(own.User.Sid) {
		t.Errorf("it is user %s's: %v", user, err)
	}
	check(t, in.Close())
	check(t, cmd.Wait())
	if p.Alive() || Of(p.PID).Known() && Of(p.PID) == p {
		t.Error("it has ended, and counts as alive")
	}
}
