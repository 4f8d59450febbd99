package client

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// endTimeout is how long the system may take to end a process that is killed.
const endTimeout = time.Second

// endByForce kills the agent, which listens at the other end of conn, and its
// workers. conn is nil where no connection could be made: then the agent is who
// holds the lock. It returns the agent's process when all of them are gone.
func endByForce(lock string, conn net.Conn) (int, error) {
	holder, err := lockHolder(lock)
	if err != nil {
		return 0, err
	}
	pid := holder
	if conn != nil {
		pid = socket.PeerPID(conn)
	}
	if pid <= 0 {
		return 0, errors.New("the system does not tell which process is the agent")
	}
	agent, err := pinOf(pid)
	if err != nil {
		return 0, err
	}
	defer func() { _ = agent.Release() }() // release frees a handle, nothing else
	if conn != nil && hungUp(conn) {       // the listener has ended, and another process may have its number
		return pid, nil
	}
	if err := isAgent(pid, holder); err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	workers, err := workersOf(pid)
	defer func() {
		for _, w := range workers {
			_ = w.Release() // release frees a handle, nothing else, too
		}
	}()
	if err != nil {
		return 0, err
	}
	return pid, end(append([]pinned{agent}, workers...))
}

// pinned is a process that is not mistaken for another one that is given its number
// later: os.Process holds a pidfd where the system has them (pidfd_open(2)).
type pinned struct {
	*os.Process
	id process.ID
}

func pinOf(pid int) (pinned, error) {
	p, err := os.FindProcess(pid)
	return pinned{p, process.Of(pid)}, err
}

// gone tells whether the process has ended, with all its threads: until then it holds
// its locks. A zombie counts.
func (p pinned) gone() bool {
	fields := stat(p.Pid)
	return p.id.Start == 0 || len(fields) < 20 || fields[19] != strconv.FormatUint(p.id.Start, 10) ||
		(fields[0] == "Z" || fields[0] == "X") && (fields[17] == "0" || fields[17] == "1")
}

// end kills processes, the agent first, and waits for their end.
func end(all []pinned) error {
	for _, p := range all {
		if p.gone() { // a worker ends with its agent
			continue
		}
		if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("process %d: %w", p.Pid, err)
		}
	}
	deadline := time.NewTimer(endTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		all = slices.DeleteFunc(all, pinned.gone)
		if len(all) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("process %d was killed and has not ended", all[0].Pid)
		}
	}
}

// isAgent refuses a process that is not an agent of ours: another user's, another
// program's, or not the one that holds the agent's lock.
func isAgent(pid, holder int) error {
	if err := isOurs(pid, "serve"); err != nil {
		return err
	}
	if holder != pid {
		return errors.New("it does not hold the agent's lock")
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	if errors.Is(err, os.ErrPermission) {
		return nil // a hardened agent hides its program
	}
	if err == nil && filepath.Base(strings.TrimSuffix(exe, " (deleted)")) != filepath.Base(own) {
		err = fmt.Errorf("its program is %q", exe)
	}
	return err
}

// isOurs refuses a process that is another user's, or was not started as
// `PROGRAM agent VERB`.
func isOurs(pid int, verb string) error {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		ids, ok := strings.CutPrefix(line, "Uid:")
		if own := strconv.Itoa(os.Geteuid()); ok &&
			slices.ContainsFunc(strings.Fields(ids), func(id string) bool { return id != own }) {
			return errors.New("it belongs to another user")
		}
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return err
	}
	if args := strings.Split(string(b), "\x00"); len(args) < 3 || args[1] != "agent" || args[2] != verb {
		return errors.New("it was not started as an agent's process")
	}
	return nil
}

// workersOf pins the workers of an agent, which lives.
func workersOf(agent int) ([]pinned, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	child := func(pid int) bool {
		fields := stat(pid)
		return len(fields) > 1 && fields[1] == strconv.Itoa(agent) && isOurs(pid, "worker") == nil
	}
	var all []pinned
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !child(pid) {
			continue
		}
		if p, err := pinOf(pid); err == nil {
			if !child(pid) { // another process may have taken the number meanwhile
				_ = p.Release()
				continue
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// stat is /proc/PID/stat from field 3 on (proc_pid_stat(5)), empty if there is none:
// state, parent and, as the 18th and 20th, the number of threads and the start time.
func stat(pid int) []string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// lockHolder is the process that holds a lock file (proc_locks(5)), 0 if none does.
func lockHolder(path string) (int, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	b, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0, err
	}
	// "1: FLOCK ADVISORY WRITE 123 08:02:4711 0 EOF". Some file systems have other
	// device numbers there than stat(2) tells: then the inode must be enough.
	inode := ":" + strconv.FormatUint(st.Ino, 10)
	file := fmt.Sprintf("%02x:%02x%s", unix.Major(st.Dev), unix.Minor(st.Dev), inode)
	var likely []int
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || f[3] != "WRITE" || !strings.HasSuffix(f[5], inode) {
			continue
		}
		pid, err := strconv.Atoi(f[4])
		switch {
		case err != nil || pid <= 0 || isOurs(pid, "serve") != nil:
		case f[5] == file:
			return pid, nil
		default:
			likely = append(likely, pid)
		}
	}
	switch len(likely) {
	case 0:
		return 0, nil
	case 1:
		return likely[0], nil
	}
	return 0, fmt.Errorf("the system does not tell which of the processes %v is the agent", likely)
}

// checkHolder refuses a process at the other end of conn that is not the one with the agent's lock. Where the kernel does
// not show who has the lock, another user's is kept out, by [socket.Dial].
func checkHolder(conn net.Conn, lock string) error {
	peer := process.Of(socket.PeerPID(conn))
	holder, err := lockHolder(lock)
	switch {
	case err == nil && (holder == 0 || !peer.Known() || holder == peer.PID):
		return nil
	case err == nil && !peer.Alive(): // it was the agent before
		err = ErrNotRunning
	case err == nil:
		err = hint.With(fmt.Errorf("%w: process %d, and the agent is process %d", ErrImpostor, peer.PID, holder),
			fmt.Sprintf("see what process %d is, and end it; `kubehsm agent lock` ends the agent, which nobody reaches", peer.PID))
	}
	return errors.Join(err, conn.Close())
}

// hungUp tells whether the other end of a connection is closed.
func hungUp(c net.Conn) bool {
	closed := true
	err := socket.Control(c, func(fd int) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}}
		n, err := unix.Poll(fds, 0)
		closed = err != nil || n > 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLRDHUP|unix.POLLERR) != 0
	})
	return err != nil || closed
}
