//go:build linux

package credential

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/must"
)

func TestParseProcess(t *testing.T) {
	for _, id := range []process.ID{process.This(), {PID: 1, Start: 1}} {
		if got, err := ParseProcess(formatProcess(id)); err != nil || got != id {
			t.Errorf("%+v: %+v, %v", id, got, err)
		}
	}
	for _, s := range []string{"", "1", "1/", "/1", "0/1", "1/0", "-1/1", "x/1", "1/x", "1/1/1", "1/-1"} {
		if got, err := ParseProcess(s); err == nil {
			t.Errorf("%q is %+v", s, got)
		}
	}
}

// TestAlone: in a process group, the client's parents are no strangers; anybody
// else is.
func TestAlone(t *testing.T) {
	start := func(group int) *exec.Cmd {
		c := exec.Command("sleep", "600")
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
		must.OK(t, c.Start())
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		return c
	}
	client := start(0)
	group := client.Process.Pid
	attendant := start(group)
	if !alone(group, client.Process.Pid, attendant.Process.Pid) {
		t.Error("client and attendant are not alone")
	}
	if alone(group, client.Process.Pid, os.Getpid()) {
		t.Error("a stranger is not noticed")
	}
	other := start(group)
	if alone(group, client.Process.Pid, attendant.Process.Pid) {
		t.Error("a pager beside them is not noticed")
	}
	must.OK(t, other.Process.Kill())
	_ = other.Wait() // killed above
	if !alone(group, client.Process.Pid, attendant.Process.Pid) {
		t.Error("who is gone still counts")
	}
}

// TestWhenGone: the end of the client is noticed, and one that has ended already
// is an error.
func TestWhenGone(t *testing.T) {
	c := exec.Command("sleep", "600")
	must.OK(t, c.Start())
	id := process.Of(c.Process.Pid)
	gone := make(chan struct{})
	must.OK(t, whenGone(id, func() { close(gone) }))
	select {
	case <-gone:
		t.Fatal("it lives")
	default:
	}
	must.OK(t, c.Process.Kill())
	_ = c.Wait() // killed above
	<-gone
	if err := whenGone(id, func() {}); err == nil {
		t.Error("a process that has ended can be attended")
	}
	if err := whenGone(process.ID{PID: os.Getpid(), Start: process.This().Start + 1}, func() {}); err == nil {
		t.Error("another process of that number can be attended")
	}
}
