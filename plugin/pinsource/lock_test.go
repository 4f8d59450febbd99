//go:build linux

package pinsource

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gofrs/flock"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// TestWaitsForWhom: who waits for the verdict on another process's try is told which
// process that is, until it has its turn.
func TestWaitsForWhom(t *testing.T) {
	d := newDesk(t, "271828")
	p := d.process()
	d.wants(p, prompt("", -1), "271828")
	locks, err := filepath.Glob(filepath.Join(d.dir, "state", "pin-source-*.lock"))
	check(t, err)
	if len(locks) != 1 {
		t.Fatal(locks)
	}
	var holder process.ID
	b, err := os.ReadFile(locks[0])
	check(t, err)
	check(t, json.Unmarshal(b, &holder))
	if holder != process.This() {
		t.Errorf("%+v has the lock", holder)
	}
	check(t, p.Close())

	// Another process, which is on no terminal, has it.
	c := exec.Command("sleep", "600")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	check(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	holder = process.Of(c.Process.Pid)
	l := flock.New(locks[0])
	_, err = l.TryLock()
	check(t, err)
	b, err = json.Marshal(holder)
	check(t, err)
	check(t, os.WriteFile(locks[0], b, 0o600))
	var told []ask.Wait
	done := 0
	p = d.process()
	p.o.Waiting = func(w ask.Wait) func() {
		told = append(told, w)
		check(t, l.Close()) // and so goes on
		return func() { done++ }
	}
	d.wants(p, prompt("", -1), "271828")
	want := ask.Wait{For: ask.ForTrial, Kind: string(hsm.UserPIN), Token: "prod", Client: holder, Asker: holder}
	if len(told) != 1 || told[0] != want || done != 1 {
		t.Errorf("told %+v, over %d times; want %+v", told, done, want)
	}
}
