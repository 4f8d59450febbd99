package socket

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// pipeOf is the named pipe that stands for a socket at path. Pipes have no folders: the
// whole path is in the name, hashed. A name keeps nobody out, the pipe's own list does.
func pipeOf(path string) string {
	path = strings.ToLower(filepath.Clean(path))
	h := fnv.New64a()
	_, _ = h.Write([]byte(path)) // never an error
	name := strings.TrimSuffix(filepath.Base(path), ".sock")
	return fmt.Sprintf(`\\.\pipe\kubehsm-%s-%016x`, name, h.Sum64())
}

// CheckPeer refuses a connection whose other end is another user's. A client asks whose the
// pipe is; a server need not ask, since the system lets only its own user open the pipe.
func CheckPeer(c net.Conn) error {
	h, server, err := pipe(c)
	if err != nil || server {
		return err
	}
	sd, err := windows.GetSecurityInfo(h, windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return fmt.Errorf("the owner of the pipe: %w", err)
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return fmt.Errorf("the owner of the pipe: %w", err)
	}
	own, err := user()
	if err != nil {
		return err
	}
	if owner == nil || !owner.Equals(own) {
		return fmt.Errorf("the other end of the pipe is another user's (%s)", owner)
	}
	return nil
}

// PeerPID is the process that opened the other end, 0 if the system does not tell.
func PeerPID(c net.Conn) int {
	h, server, err := pipe(c)
	if err != nil {
		return 0
	}
	ask := windows.GetNamedPipeServerProcessId
	if server {
		ask = windows.GetNamedPipeClientProcessId
	}
	var pid uint32
	if ask(h, &pid) != nil {
		return 0
	}
	return int(pid)
}

// peekNamedPipe fails where the other end is closed.
var peekNamedPipe = windows.NewLazySystemDLL("kernel32.dll").NewProc("PeekNamedPipe")

// Peer is the process that connected, told from others that get its number later.
// The zero ID is one that the system does not tell. Errors: [process.ErrEnded].
func Peer(c net.Conn) (process.ID, error) {
	pid := PeerPID(c)
	if pid == 0 {
		return process.ID{}, nil
	}
	id, err := process.Find(pid)
	if h, _, perr := pipe(c); perr == nil {
		// Asked last: a process that has ended has closed its end.
		if ok, _, _ := peekNamedPipe.Call(uintptr(h), 0, 0, 0, 0, 0); ok == 0 {
			return process.ID{PID: pid}, process.ErrEnded
		}
	}
	return id, err
}

// pipe is the handle of a connection that is a pipe, and whether it is the server's end.
func pipe(c net.Conn) (h windows.Handle, server bool, err error) {
	p, ok := c.(interface{ Fd() uintptr })
	if !ok {
		return 0, false, errors.New("not a pipe")
	}
	h = windows.Handle(p.Fd())
	var flags uint32
	if err := windows.GetNamedPipeInfo(h, &flags, nil, nil, nil); err != nil {
		return 0, false, fmt.Errorf("not a pipe: %w", err)
	}
	return h, flags&windows.PIPE_SERVER_END != 0, nil
}

// user is the user that this process runs as.
func user() (*windows.SID, error) {
	u, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, fmt.Errorf("the own user: %w", err)
	}
	return u.User.Sid, nil
}

// busyLimit is how long a server may take to accept: there is no queue.
const busyLimit = 10 * time.Second

// Dial connects to the pipe of the socket at path, which our own user serves. The server
// cannot act as us. [syscall.EAGAIN] if the server accepts nobody.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, busyLimit)
	defer cancel()
	conn, err := winio.DialPipeContext(limited, pipeOf(path))
	switch {
	case err != nil && ctx.Err() == nil && limited.Err() != nil:
		return nil, fmt.Errorf("%s: nobody is accepted there: %w", path, syscall.EAGAIN)
	case errors.Is(err, windows.ERROR_ACCESS_DENIED):
		return nil, fmt.Errorf("the other end of the pipe is another user's: %w", err)
	case err != nil:
		return nil, err
	}
	if err := CheckPeer(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// checkPath refuses a path that [Listen] would refuse, and changes nothing: a file is there,
// which hides what the path is for.
func checkPath(path string) error {
	switch _, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return hint.With(fmt.Errorf("%s is there already and is not a socket", path), "choose another path, or remove it")
}

// bufferSize is what an end may write before the other one reads, in bytes.
const bufferSize = 1 << 16

// Listen listens on the pipe of the socket at path, which only our own user can open, on
// this machine. There is an error if somebody listens there.
func Listen(path string) (net.Listener, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	own, err := user()
	if err != nil {
		return nil, err
	}
	name := pipeOf(path)
	l, err := winio.ListenPipe(name, &winio.PipeConfig{
		// The owner is ours, and not the Administrators as it is by default for one of them.
		SecurityDescriptor: fmt.Sprintf("O:%[1]sD:P(A;;GA;;;%[1]s)", own),
		InputBufferSize:    bufferSize, OutputBufferSize: bufferSize,
	})
	if err != nil {
		return nil, hint.With(err, "another program, perhaps another user's, has that pipe: end it")
	}
	return &listener{l, takeFirst(name)}, nil
}

// listener is a listener with what [takeFirst] has taken.
type listener struct {
	net.Listener
	first windows.Handle
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	if l.first != windows.InvalidHandle {
		_ = windows.CloseHandle(l.first) // the pipe has no other end
		l.first = windows.InvalidHandle
	}
	return l.Listener.Close()
}

// takeFirst connects to the pipe that nobody accepts on yet. Windows refuses it: the instance
// by which go-winio keeps the name accepts no client. Wine 10 lets the first client in there,
// and nobody would serve that one.
func takeFirst(name string) windows.Handle {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return windows.InvalidHandle
	}
	h, err := windows.CreateFile(path, windows.GENERIC_READ, 0, nil, windows.OPEN_EXISTING,
		windows.SECURITY_SQOS_PRESENT|windows.SECURITY_ANONYMOUS, 0)
	if err != nil {
		return windows.InvalidHandle
	}
	return h
}

// Name is what a socket is found by. That of a pipe goes with the listener, and not before.
type Name struct{}

// TakeName notes the name of the socket just made.
func TakeName(string) (Name, error) { return Name{}, nil }

// Lost tells that nobody finds the socket by its name any more.
func (Name) Lost() bool { return false }

// Remove leaves the name to the listener's end.
func (Name) Remove() error { return nil }
