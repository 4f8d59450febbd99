package controlplane

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processStart reads when pid was started and whether it is a zombie, from
// proc_pid_stat(5): fields 22 and 3.
func processStart(pid int) (started string, zombie bool, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", false, err
	}
	// The command's name, field 2, may hold spaces and parentheses.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return "", false, fmt.Errorf("process %d: unexpected stat %q", pid, stat)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", false, err
	}
	return strings.TrimSpace(string(boot)) + "/" + fields[19], fields[0] == "Z" || fields[0] == "X", nil
}

// run starts cmd, says so on started, and reaps it.
//
// The kernel sends the parent-death signal when the thread that forked ends,
// not the process, so the thread is kept for as long as the child lives.
func (p *process) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	id, err := Identify(cmd.Process.Pid) // not reaped yet, so it is there
	p.Ident = id
	if err != nil {
		_ = cmd.Process.Kill() // the process may have ended already
	}
	started <- err
	_ = cmd.Wait() // the server's log tells how the server ended
	close(p.done)
}

func setSession(cmd *exec.Cmd, detached bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if !detached {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
}

// endWithGroup puts cmd in its own process group, and interrupts the whole
// group when cmd's context is cancelled: the go command then tidies up.
func endWithGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
}

// makeNice lets the process group pid yield to what the user does meanwhile.
// It is a courtesy: where it is refused the build is merely less polite.
func makeNice(pid int) { _ = syscall.Setpriority(syscall.PRIO_PGRP, pid, 5) }
