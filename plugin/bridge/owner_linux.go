package bridge

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/plugin/process"
)

// whoseSocket asks the kernel for the inode of the client's socket, and looks for it
// among the descriptors of the processes that it may belong to. It is the session's
// client that counts, also where a child has inherited the socket.
func whoseSocket(client, server netip.AddrPort, of Client, kin []Client) (owner Client, told bool, err error) {
	_, inode, err := socketOf(client, server)
	if err != nil {
		return Client{}, false, fmt.Errorf("%w: %w", errLook, err)
	}
	hidden := false
	for _, p := range append([]Client{of}, kin...) {
		held, err := holds(p, inode)
		switch {
		case held:
			return p, true, nil
		case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist): // proc_pid_fd(5), hidepid in proc(5)
			hidden = true
		case err != nil:
			return Client{}, false, fmt.Errorf("%w: %w", errLook, err)
		}
	}
	holders, err := holders(inode)
	if err != nil {
		return Client{}, false, fmt.Errorf("%w: %w", errLook, err)
	}
	for _, p := range holders {
		if owner = p; slices.Contains(slices.Collect(p.Ancestors()), of) {
			return p, true, nil
		}
	}
	switch {
	case owner.Known():
		return owner, false, fmt.Errorf("this connection belongs to process %d", owner.PID)
	case hidden:
		return owner, false, errHidden
	}
	return owner, false, errors.New("this connection belongs to another process")
}

// holders are the processes that are seen to have the socket open.
func holders(inode uint32) (all []Client, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, err := process.Find(pid)
		held := false
		if err == nil {
			held, err = holds(p, inode)
		}
		if err != nil && !errors.Is(err, process.ErrEnded) && !errors.Is(err, fs.ErrPermission) { // most of the latter are other users'
			return nil, err
		}
		if held {
			all = append(all, p)
		}
	}
	return all, nil
}

// holds tells whether the process has the socket open. The error says that its
// descriptors cannot be seen.
func holds(p Client, inode uint32) (bool, error) {
	if !p.Known() || inode == 0 { // the connection has been closed
		return false, nil
	}
	dir, err := os.Open("/proc/" + strconv.Itoa(p.PID) + "/fd")
	if errors.Is(err, fs.ErrNotExist) && !p.Alive() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil && p.Alive() {
		return false, err
	}
	want := "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]"
	target := make([]byte, len(want)+1)
	for _, name := range slices.Backward(names) { // the latest is probably among the last
		n, err := unix.Readlinkat(int(dir.Fd()), name, target)
		if errors.Is(err, fs.ErrPermission) { // outside of this user namespace, descriptors are listed but not shown
			return false, err
		}
		if err == nil && string(target[:n]) == want {
			return p.Alive(), nil // while p lives, no other process has its number
		}
	}
	return false, nil
}
