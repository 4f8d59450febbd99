//go:build linux && cgo

package faults

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// role is what a process of the lab is.
type role string

// The roles, by their command lines.
const (
	command    role = "command"
	agent      role = "agent"
	worker     role = "worker"
	credential role = "credential"
	attendant  role = "attendant"
)

// roleOf tells by the arguments after the program's name.
func roleOf(line string) role {
	for head, r := range map[string]role{"agent serve": agent, "agent worker": worker} {
		if strings.HasPrefix(line, head) {
			return r
		}
	}
	if strings.HasPrefix(line, "credential ") {
		if strings.Contains(line, "--attend") {
			return attendant
		}
		return credential
	}
	return command
}

// strike is a fault that waits for its point.
type strike struct {
	// role and at say which point: the at-th of all that the role's processes come to,
	// or with after the at-th of all from one on that begins so.
	role  role
	at    int
	after string
	// do is the fault; pid is the process at the point, which waits until do is done.
	do func(pid int)

	begun bool // counting
}

// rig is what the processes of one lab tell their points to.
type rig struct {
	listener *net.UnixListener
	handlers sync.WaitGroup

	mu     sync.Mutex
	strike *strike
	where  string // the point at which it struck
	counts map[role]int
	seen   []string
}

// maxSeen is how many points are kept to be shown.
const maxSeen = 400

// newRig listens in dir, where the lab's program looks for it.
func newRig(dir string) (*rig, error) {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(dir, "rig"), Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	r := &rig{listener: l, counts: map[role]int{}}
	r.handlers.Go(func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			r.handlers.Go(func() { r.hear(c) })
		}
	})
	return r, nil
}

func (r *rig) close() {
	r.listener.Close()
	r.handlers.Wait()
}

// hear takes one point. Its process goes on when the connection is closed.
func (r *rig) hear(c *net.UnixConn) {
	defer c.Close()
	b := make([]byte, 8192)
	n, err := c.Read(b)
	if err != nil {
		return // killed meanwhile
	}
	line, what, _ := strings.Cut(string(b[:n]), "\x00")
	pid, err := peer(c)
	if err != nil {
		return
	}
	do := r.at(roleOf(line), what)
	if do != nil {
		do(pid)
	}
}

// at counts a point and returns the fault that strikes there.
func (r *rig) at(who role, what string) func(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[who]++
	point := fmt.Sprintf("%s %d: %s", who, r.counts[who], what)
	if r.seen = append(r.seen, point); len(r.seen) > maxSeen {
		r.seen = r.seen[len(r.seen)-maxSeen:]
	}
	s := r.strike
	if s == nil || s.after == "" && s.role != who || !s.begun && !strings.HasPrefix(what, s.after) {
		return nil
	}
	s.begun = true
	if s.at--; s.at > 0 {
		return nil
	}
	r.strike, r.where = nil, point
	return s.do
}

// arm has s, or nothing, strike from now on, and begins to count.
func (r *rig) arm(s *strike) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.strike, r.where = s, ""
	clear(r.counts)
	r.seen = nil
}

// disarm returns where the fault struck, "" if it did not, and the points seen.
func (r *rig) disarm() (where string, seen []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.strike = nil
	return r.where, r.seen
}

// peer is the process at the other end.
func peer(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, cerr); err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}

// signal sends sig to a process that may have ended.
func signal(pid int, sig syscall.Signal) {
	_ = syscall.Kill(pid, sig) // gone is as good
}
