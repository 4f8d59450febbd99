//go:build linux || darwin

package process

import (
	"bufio"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/poll"
)

// TestAncestors: a process that was started through shells has us among those that
// started it, and not its sibling.
func TestAncestors(t *testing.T) {
	start := func(script string) (*exec.Cmd, ID) {
		c := exec.Command("sh", "-c", script)
		in, err := c.StdinPipe()
		check(t, err)
		out, err := c.StdoutPipe()
		check(t, err)
		check(t, c.Start())
		t.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
		line, err := bufio.NewReader(out).ReadString('\n')
		check(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		check(t, err)
		return c, Of(pid)
	}
	shell, inner := start(`sh -c 'echo $$; read x; true'; true`)
	_, sibling := start(`echo $$; read x`)
	all := slices.Collect(inner.Ancestors())
	if len(all) < 2 || all[0] != Of(shell.Process.Pid) || all[1] != This() || slices.Contains(all, sibling) ||
		slices.Contains(all, inner) {
		t.Errorf("%v of %v, in %v and %v", all, inner, Of(shell.Process.Pid), This())
	}
	other := ID{PID: inner.PID, Start: inner.Start + 1}
	if all := slices.Collect(other.Ancestors()); all != nil {
		t.Errorf("a process that has ended has ancestors: %v", all)
	}
}

// TestEndedIsNotAlive: a process has ended when it ends, not when its parent looks.
func TestEndedIsNotAlive(t *testing.T) {
	c := exec.Command("sh", "-c", "exec 3>&1 >/dev/null; read x")
	in, err := c.StdinPipe()
	check(t, err)
	out, err := c.StdoutPipe()
	check(t, err)
	check(t, c.Start())
	p := Of(c.Process.Pid)
	if !p.Alive() {
		t.Error("it runs, and counts as ended")
	}
	_ = in.Close() // the process ends with its input
	if b, err := bufio.NewReader(out).Peek(1); err == nil {
		t.Errorf("it says %q", b)
	}
	// Its descriptors are closed on its way out, just before it becomes a zombie.
	poll.Until(t, "it counts as ended", func() bool { return !p.Alive() })
	if err := c.Wait(); err == nil {
		t.Error("read found a line")
	}
}
