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
// client that counts, also where a child has inherited the socket. A client whose
// descriptors nobody may see (proc_pid_fd(5)) cannot be told from others.
func whoseSocket(client, server netip.AddrPort, of Client, kin []Client) (owner Client, told bool, err error) {
	if !of.Known() {
		return Client{}, false, nil
	}
	_, inode, err := socketOf(client, server)
	if err != nil {
		return Client{}, false, fmt.Errorf("the owner of the connection cannot be found: %w", err)
	}
	held, err := holds(of, inode)
	if held {
		return of, true, nil
	}
	switch {
	case err == nil || !of.Alive(): // another process may have its number by now
	case errors.Is(err, fs.ErrPermission):
		return Client{}, false, nil
	default:
		return Client{}, false, fmt.Errorf("the owner of the connection cannot be found: %w", err)
	}
	for _, p := range kin {
		if held, _ := holds(p, inode); held { // the owner of hidden descriptors cannot be told
			return p, true, nil
		}
	}
	for _, p := range holders(inode) {
		if owner = p; slices.Contains(slices.Collect(p.Ancestors()), of) {
			return p, true, nil
		}
	}
	if owner.Known() {
		return owner, false, fmt.Errorf("this connection belongs to process %d", owner.PID)
	}
	return owner, false, errors.New("this connection belongs to another process")
}

// holders are the processes that are seen to have the socket open.
func holders(inode uint32) (all []Client) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p := process.Of(pid)
		if held, _ := holds(p, inode); held { // most of those that cannot be seen are other users'
			all = append(all, p)
		}
	}
	return all
}

// holds tells whether the process has the socket open. The error says that its
// descriptors cannot be seen.
func holds(p Client, inode uint32) (bool, error) {
	if !p.Known() || inode == 0 { // the connection has been closed
		return false, nil
	}
	dir, err := os.Open("/proc/" + strconv.Itoa(p.PID) + "/fd")
	if errors.Is(err, fs.ErrNotExist) {
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
