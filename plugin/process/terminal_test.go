//go:build linux || darwin

package process

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// TestTerminalName: the name is the controlling terminal's, where there is one.
func TestTerminalName(t *testing.T) {
	master, tty, err := pty.Open()
	check(t, err)
	t.Cleanup(func() { _ = tty.Close(); _ = master.Close() })
	for want, attr := range map[string]*syscall.SysProcAttr{
		tty.Name(): {Setsid: true, Setctty: true},
		"":         {Setsid: true},
	} {
		c := exec.Command("sleep", "600")
		c.Stdin, c.SysProcAttr = tty, attr
		check(t, c.Start())
		if got := Of(c.Process.Pid).TerminalName(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		_ = c.Process.Kill()
		_ = c.Wait() // killed above
	}
}
