//go:build linux

// Package nolocks runs programs on a system whose file systems keep no locks: the kernel
// itself answers ENOLCK to flock(2), as a network file system has it do.
package nolocks

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// run is the variable that has [Main] run a program.
const run = "KUBEHSM_TEST_NO_LOCKS"

// Main is to be called first in a TestMain: it becomes the program that [Command] names.
func Main() {
	path := os.Getenv(run)
	if path == "" {
		return
	}
	runtime.LockOSThread()
	if err := refuse(); err != nil {
		panic(err)
	}
	if err := os.Unsetenv(run); err != nil {
		panic(err)
	}
	panic(unix.Exec(path, append([]string{path}, os.Args[1:]...), os.Environ()))
}

// Command is that program without locks. The environment is the test's, and env.
func Command(t testing.TB, env []string, path string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, args...)
	c.Env = append(append(os.Environ(), env...), run+"="+path)
	return c
}

// refuse has the kernel refuse flock(2) from now on, to this thread and what it executes.
func refuse() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_FLOCK},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOLCK)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return errno
	}
	return nil
}
