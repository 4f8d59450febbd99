//go:build linux || darwin

package neighbours

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/poll"
)

// Start starts two programs on one terminal; end ends the second.
func Start(t *testing.T) (first, second process.ID, end func()) {
	t.Helper()
	check := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	master, tty, err := pty.Open()
	check(t, err)
	// The end of the shell, which leads the session, would end both. They are subshells: what a shell starts becomes
	// another program a moment after its process ID is known, and an answer holds for one program.
	forever := "(while :; do sleep 600; done) & echo $!; "
	c := exec.Command("sh", "-c", forever+forever+"wait")
	c.Stdin, c.SysProcAttr = tty, &syscall.SysProcAttr{Setsid: true, Setctty: true}
	out, err := c.StdoutPipe()
	check(t, err)
	check(t, c.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait() // the process was killed
		_ = tty.Close()
		_ = master.Close()
	})
	var pids [2]int
	_, err = fmt.Fscan(out, &pids[0], &pids[1])
	check(t, err)
	first, second = process.Of(pids[0]), process.Of(pids[1])
	if first.Terminal() == 0 || first.Terminal() != second.Terminal() {
		t.Fatalf("terminals %x and %x", first.Terminal(), second.Terminal())
	}
	return first, second, func() {
		check(t, syscall.Kill(second.PID, syscall.SIGKILL))
		poll.Until(t, "the second has ended", func() bool { return !second.Alive() })
	}
}
