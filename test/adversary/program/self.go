//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/test/adversary/play"
)

// name has the process go by another name (prctl(2), PR_SET_NAME). The kernel keeps
// one for each thread; the process's is the first one's.
func (a *adversary) name(_ context.Context, o play.Order, _ *play.Answer) error {
	return os.WriteFile("/proc/self/comm", []byte(o.Text), 0)
}

// exec has another program's file take this one's place in the process, with the
// same credential.
func (a *adversary) exec(_ context.Context, o play.Order, _ *play.Answer) error {
	saved := o.Path + ".credential"
	if err := a.credential.Save(saved); err != nil {
		return err
	}
	if err := a.conn.Close(); err != nil { // the next program connects anew
		return err
	}
	return unix.Exec(o.Path, []string{o.Path, os.Args[1], saved}, os.Environ())
}

// child starts this program again, with the credential of this one.
func (a *adversary) child(_ context.Context, o play.Order, _ *play.Answer) error {
	if err := a.credential.Save(o.Path); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe, os.Args[1], o.Path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() // The child ends when the test hangs up.
	return nil
}

// spy tries to get at what a process has in its memory and behind its descriptors,
// in each way that the kernel offers, and names those that worked.
func (a *adversary) spy(_ context.Context, o play.Order, out *play.Answer) error {
	pid := o.For.PID
	worked := func(how string, err error) {
		if err == nil {
			out.Done = append(out.Done, how)
		}
	}
	proc := fmt.Sprintf("/proc/%d/", pid)
	for _, file := range []string{"mem", "environ", "auxv", "maps"} {
		f, err := os.Open(proc + file)
		if err == nil {
			_, err = f.Read(make([]byte, 1))
			if file == "mem" { // nothing is at its beginning
				err = nil
			}
			_ = f.Close() // The file was only read.
		}
		if err != io.EOF {
			worked(file, err)
		}
	}
	entries, err := os.ReadDir(proc + "fd") // root may list its own; what they lead to is another matter
	for _, e := range entries {
		if _, err = os.Readlink(proc + "fd/" + e.Name()); err == nil {
			break
		}
	}
	worked("fd", err)
	buffer := make([]byte, 8)
	_, err = unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &buffer[0], Len: 8}},
		[]unix.RemoteIovec{{Base: uintptr(0x400000), Len: 8}}, 0)
	if err != unix.EFAULT { // a system call's own
		worked("process_vm_readv", err)
	} else {
		worked("process_vm_readv", nil) // Reading was allowed; nothing is there.
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	for fd := range 32 {
		stolen, err := unix.PidfdGetfd(pidfd, fd, 0)
		if err == nil {
			worked(fmt.Sprintf("pidfd_getfd of %d", fd), unix.Close(stolen))
		}
	}
	runtime.LockOSThread() // Tracing belongs to one thread.
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(pid); err != nil {
		return nil // A refusal is what should be.
	}
	worked("ptrace", nil)
	var status unix.WaitStatus
	err = unix.PtraceInterrupt(pid)
	if err == nil {
		_, err = unix.Wait4(pid, &status, unix.WALL, nil)
	}
	return errors.Join(err, unix.PtraceDetach(pid))
}

// typeKeys puts keys into the terminal's queue as if they were typed (TIOCSTI,
// ioctl_tty(2)).
func (a *adversary) typeKeys(_ context.Context, o play.Order, _ *play.Answer) error {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer tty.Close() // Writing is over by then.
	for _, key := range []byte(o.Text) {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, tty.Fd(), unix.TIOCSTI, uintptr(unsafe.Pointer(&key)))
		if errno != 0 {
			return fmt.Errorf("TIOCSTI: %w", errno)
		}
	}
	return nil
}

// squat listens at an address, a port or a unix socket's path, and keeps what comes
// in. The first call listens; one without an address says what came.
func (a *adversary) squat(_ context.Context, o play.Order, out *play.Answer) error {
	if o.Address == "" && o.Path == "" {
		for {
			select {
			case what := <-a.attending:
				out.Done = append(out.Done, what)
			default:
				return nil
			}
		}
	}
	network, address := "tcp", o.Address
	if o.Path != "" {
		network, address = "unix", o.Path
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	if o.Credential != nil { // With its credential, the program plays the bridge.
		pair, err := tls.X509KeyPair(o.Credential.Certificate, o.Credential.Key)
		if err != nil {
			return err
		}
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}})
	}
	answer := o.Text
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close() // The connection was only read.
				b := make([]byte, 1<<16)
				n, _ := c.Read(b) // nothing is an answer too
				if n > 0 {
					yes{a.attending}.note(strings.ToValidUTF8(string(b[:n]), "."))
				}
				_, _ = io.WriteString(c, answer)
			}()
		}
	}()
	return nil
}
