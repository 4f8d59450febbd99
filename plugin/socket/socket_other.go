//go:build !windows

package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// CheckPeer refuses a connection to a process of another user.
func CheckPeer(c net.Conn) error {
	var uid int
	var err error
	if cerr := Control(c, func(fd int) { uid, err = wire.PeerUID(fd) }); cerr != nil {
		return cerr
	}
	if err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	if uid != os.Geteuid() {
		return fmt.Errorf("the process at the other end of the socket belongs to another user (user id %d)", uid)
	}
	return nil
}

// PeerPID is the process at the other end, 0 if the system does not tell.
func PeerPID(c net.Conn) (pid int) {
	if Control(c, func(fd int) { pid = wire.PeerPID(fd) }) != nil {
		return 0
	}
	return pid
}

// Peer is the process that connected, told from others that get its number later.
// The zero ID is one that the system does not tell. Errors: [process.ErrEnded], or that the
// system could not be asked.
func Peer(c net.Conn) (id process.ID, err error) {
	ended := false
	var ferr error
	err = Control(c, func(fd int) {
		pid := wire.PeerPID(fd)
		if pid == 0 {
			return
		}
		id, ferr = process.Find(pid)
		var perr error
		ended, perr = wire.PeerEnded(fd) // asked last: until now the number was the peer's
		ferr = errors.Join(ferr, perr)
	})
	if ended {
		return process.ID{PID: id.PID}, process.ErrEnded
	}
	return id, errors.Join(err, ferr)
}

// Control calls f with the descriptor of a connection that is a socket.
func Control(c net.Conn, f func(fd int)) error {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return errors.New("not a socket")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}

// Dial connects to the socket at path, which our own user serves.
func Dial(ctx context.Context, path string) (conn net.Conn, err error) {
	err = withPath(path, func(p string) (err error) {
		var d net.Dialer
		conn, err = d.DialContext(ctx, "unix", p)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := CheckPeer(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// withPath is [wire.WithPath] with the next step.
func withPath(path string, f func(string) error) error {
	err := wire.WithPath(path, f)
	if errors.Is(err, wire.ErrPath) {
		return hint.With(err, "choose a shorter path; "+home.EnvHome+" moves all of kubehsm's folders")
	}
	return err
}

// checkPath refuses a path that [Listen] would refuse, and changes nothing: anything
// but a socket is there, or the name is too long. Its folder must be there.
func checkPath(path string) error {
	if err := withPath(path, func(string) error { return nil }); err != nil {
		return err
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return hint.With(fmt.Errorf("%s already exists and is not a socket", path), "choose another path, or remove it")
	}
	return nil
}

// Listen listens at path, with mode 0600. It replaces a socket that is there:
// the caller knows that nobody listens on it. Anything else that is there is an
// error. Closing the listener leaves the name, see [Name].
func Listen(path string) (net.Listener, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var l net.Listener
	err := withPath(path, func(p string) error {
		u, err := net.ListenUnix("unix", &net.UnixAddr{Name: p, Net: "unix"})
		if err != nil {
			return err
		}
		u.SetUnlinkOnClose(false) // the socket may be renamed
		l = u
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Name is the file that a socket listens under.
type Name struct {
	path string
	file os.FileInfo
}

// TakeName notes which file the socket just made is.
func TakeName(path string) (Name, error) {
	file, err := os.Lstat(path)
	return Name{path, file}, err
}

// Lost tells that nobody finds the socket by its name any more.
func (n Name) Lost() bool {
	now, err := os.Lstat(n.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	// the number of a file that is gone is soon another's
	return !os.SameFile(n.file, now) || !n.file.ModTime().Equal(now.ModTime())
}

// Remove removes the file, unless another file has taken its place.
func (n Name) Remove() error {
	if n.Lost() {
		return nil
	}
	if err := os.Remove(n.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
