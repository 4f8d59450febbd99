package credential

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// whenGone calls f when the process ends: pidfd_open(2) tells without polling,
// and cannot mistake another process for it.
func whenGone(client process.ID, f func()) error {
	fd, err := unix.PidfdOpen(client.PID, 0)
	switch {
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM): // Linux before 5.3, or a filter
		go poll(client, f)
		return nil
	case err != nil:
		return fmt.Errorf("process %d: %w", client.PID, err)
	case !client.Alive():
		return errors.Join(fmt.Errorf("process %d has ended", client.PID), unix.Close(fd))
	}
	go func() {
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				f()
				return
			}
		}
	}()
	return nil
}

// keepDescriptors keeps what this process has inherited beyond its streams from
// the processes that it starts (close_range(2)).
func keepDescriptors() error {
	err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		return nil // Linux before 5.11: callers that leave descriptors open are rare
	}
	return err
}

// borrow puts the terminal back into line mode, if the client has it in raw
// mode, and returns what makes it raw again. It does so only where nobody else
// can be at it: client and attendant are alone in the foreground group.
func borrow(client process.ID) (giveBack func(), err error) {
	tty, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: /dev/tty: %w", hsm.ErrNoTerminal, err)
	}
	defer unix.Close(tty) // nothing was written
	raw, err := unix.IoctlGetTermios(tty, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("%w: reading its modes: %w", hsm.ErrNoTerminal, err)
	}
	if raw.Lflag&unix.ICANON != 0 {
		return func() {}, nil
	}
	group, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	if err != nil || group != unix.Getpgrp() || !alone(group, client.PID, os.Getpid()) {
		return nil, fmt.Errorf("%w: another program holds it", hsm.ErrNoTerminal)
	}
	lines := *raw
	lines.Iflag |= unix.ICRNL
	lines.Oflag |= unix.OPOST | unix.ONLCR
	lines.Lflag |= unix.ICANON | unix.ECHO | unix.ECHOE | unix.ECHOK | unix.ISIG | unix.IEXTEN
	if err := unix.IoctlSetTermios(tty, unix.TCSETSF, &lines); err != nil {
		return nil, fmt.Errorf("%w: setting its modes: %w", hsm.ErrNoTerminal, err)
	}
	return func() {
		tty, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return // the terminal is gone
		}
		defer unix.Close(tty) // nothing was written
		if group, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP); err == nil && group == unix.Getpgrp() && client.Alive() {
			_ = unix.IoctlSetTermios(tty, unix.TCSETS, raw) // a terminal that went away needs none
		}
	}, nil
}

// alone tells whether a process group has no members but client, attendant and
// those that wait for the client: its parents, a script's shell say. What cannot
// be read counts as somebody else.
func alone(group, client, attendant int) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	parents, members := map[int]int{}, map[int]bool{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue
		}
		var state string
		var parent, its int
		if n, _ := fmt.Sscan(string(b[bytes.LastIndexByte(b, ')')+1:]), &state, &parent, &its); n < 3 { // proc_pid_stat(5)
			return false
		}
		parents[pid] = parent
		if its == group && state != "Z" {
			members[pid] = true
		}
	}
	delete(members, attendant)
	for pid := client; pid != 0; pid = parents[pid] {
		delete(members, pid)
	}
	return len(members) == 0
}
