//go:build unix

package child

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// controlFD is a child's end of the socket to its parent: the first of
// [exec.Cmd.ExtraFiles].
const controlFD = 3

// Control returns the socket to the process that started this one by [Start].
func Control() (*os.File, error) {
	if kind, err := unix.GetsockoptInt(controlFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
		return nil, errors.New("only the agent starts this command")
	}
	unix.CloseOnExec(controlFD)
	return os.NewFile(controlFD, "control"), nil
}

// Start starts cmd with one end of a socket, which the child finds by [Control], and
// returns the other end.
func Start(cmd *exec.Cmd) (*net.UnixConn, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	conn, err := Conn(ours)
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// socketPair makes two ends that no program we start inherits.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "child"), os.NewFile(uintptr(fds[1]), "parent"), nil
}

// Conn makes a connection of f, which it takes over.
func Conn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("not a unix socket"), c.Close())
	}
	return u, nil
}

// sendTimeout bounds the wait for a child that takes nothing in, as it is stopped.
const sendTimeout = 2 * time.Second

// SendConn makes a connection and passes the other end on (SCM_RIGHTS, unix(7)).
func SendConn(over *net.UnixConn) (net.Conn, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	c, err := Conn(ours)
	if err != nil {
		return nil, err
	}
	if err := over.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if _, _, err := over.WriteMsgUnix([]byte{0}, unix.UnixRights(int(theirs.Fd())), nil); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// ReceiveConn is the other side of [SendConn].
func ReceiveConn(over *net.UnixConn) (net.Conn, error) {
	var b [1]byte
	rights := make([]byte, unix.CmsgSpace(4))
	n, m, _, _, err := over.ReadMsgUnix(b[:], rights)
	if err != nil {
		return nil, err
	}
	if n == 0 || m == 0 {
		return nil, net.ErrClosed
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("no descriptor came: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("no descriptor came: %w", err)
	}
	unix.CloseOnExec(fds[0])
	return Conn(os.NewFile(uintptr(fds[0]), "passed"))
}
