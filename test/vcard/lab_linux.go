//go:build linux && cgo

package vcard

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ebfe/scard"
	"golang.org/x/sys/unix"
)

// reexec runs this program again in user, mount, network and IPC namespaces of
// its own and returns its exit code. An error says that they could not be made.
func reexec() (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	// The child dies with the thread that made it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), labVar+"=enter")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("private namespaces are not allowed here: %w", err)
	}
	ending := make(chan os.Signal, 1)
	signal.Notify(ending, syscall.SIGTERM)
	defer signal.Stop(ending)
	go func() {
		for range ending { // meant for the child, which would be killed with this process
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}()
	_ = cmd.Wait() // the exit code tells all
	return cmd.ProcessState.ExitCode(), nil
}

// enter makes the namespaces usable: a /run of its own and a loopback
// interface. It runs once in the child, before anything else of the lab.
func enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("a private /run: %w", err)
	}
	if err := os.Mkdir("/run/pcscd", 0o755); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("loopback interface: %w", err)
	}
	// vpcd does not get its ports from connections that have ended on them.
	reserved := fmt.Sprintf("%d-%d", port, port+Slots-1)
	err = os.WriteFile("/proc/sys/net/ipv4/ip_local_reserved_ports", []byte(reserved), 0)
	if err != nil && !errors.Is(err, unix.EROFS) { // in some containers it is a risk and not more
		return fmt.Errorf("reserve the readers' ports: %w", err)
	}
	return nil
}

func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// readersListed tells whether pcscd lists n readers.
func readersListed(n int) bool {
	ctx, err := scard.EstablishContext()
	if err != nil {
		return false
	}
	defer ctx.Release()
	readers, err := ctx.ListReaders()
	return err == nil && len(readers) == n
}

// waitCard waits until pcscd sees a card, or none, in a reader.
func (l *Lab) waitCard(reader string, present bool) error {
	ctx, err := scard.EstablishContext()
	if err != nil {
		return err
	}
	defer ctx.Release()
	readers, err := ctx.ListReaders()
	if err != nil {
		return err
	}
	if !slices.Contains(readers, reader) {
		return fmt.Errorf("vcard: no reader %q among %q", reader, readers)
	}
	states := []scard.ReaderState{{Reader: reader}}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		l.hasten()
		err := ctx.GetStatusChange(states, 5*time.Millisecond)
		if err != nil && !errors.Is(err, scard.ErrTimeout) {
			return err
		}
		if present && states[0].EventState&scard.StatePresent != 0 && states[0].EventState&scard.StateMute == 0 ||
			!present && states[0].EventState&scard.StateEmpty != 0 {
			return nil
		}
		states[0].CurrentState = states[0].EventState
	}
	return fmt.Errorf("vcard: reader %q did not change in time", reader)
}

// hasten wakes the threads of pcscd that sleep until they look into their reader again, which
// takes 400 ms. Of the signals that it handles, SIGUSR1 means USB readers alone. Where threads
// cannot be told apart, everything takes longer and that is all.
func (l *Lab) hasten() {
	pid := l.daemon.Process.Pid
	threads := fmt.Sprintf("/proc/%d/task", pid)
	all, _ := os.ReadDir(threads)
	for _, thread := range all {
		waits, _ := os.ReadFile(filepath.Join(threads, thread.Name(), "wchan"))
		if tid, err := strconv.Atoi(thread.Name()); err == nil && strings.Contains(string(waits), "nanosleep") {
			_ = unix.Tgkill(pid, tid, unix.SIGUSR1) // it may have ended
		}
	}
}

// quickACK makes the kernel acknowledge without delay, until the next read.
func quickACK(conn net.Conn) {
	if raw, err := conn.(*net.TCPConn).SyscallConn(); err == nil {
		// A kernel that refuses is only slower.
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) })
	}
}
