//go:build unix

package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// controlFD is the worker's end of its agent's socket: the first of
// [exec.Cmd.ExtraFiles].
const controlFD = 3

// WorkerControl returns the socket to the agent that started this process, a worker
// or a holder.
func WorkerControl() (*os.File, error) {
	if kind, err := unix.GetsockoptInt(controlFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
		return nil, errors.New("only the agent starts this command")
	}
	unix.CloseOnExec(controlFD)
	return os.NewFile(controlFD, "control"), nil
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
	return os.NewFile(uintptr(fds[0]), "worker"), os.NewFile(uintptr(fds[1]), "agent"), nil
}

// unixConn takes f over.
func unixConn(f *os.File) (*net.UnixConn, error) {
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

// sendConn makes a connection and passes the other end on (SCM_RIGHTS, unix(7)).
func sendConn(over *net.UnixConn) (net.Conn, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	c, err := unixConn(ours)
	if err != nil {
		return nil, err
	}
	// A worker that is stopped takes nothing in.
	if err := over.SetWriteDeadline(time.Now().Add(statePatience)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if _, _, err := over.WriteMsgUnix([]byte{0}, unix.UnixRights(int(theirs.Fd())), nil); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// receiveConn is the other side of sendConn.
func receiveConn(over *net.UnixConn) (net.Conn, error) {
	f, err := receiveFile(over)
	if err != nil {
		return nil, err
	}
	return unixConn(f)
}

// sendFile passes a descriptor on; both ends have it then.
func sendFile(over *net.UnixConn, f syscall.Conn) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	// Not [os.File.Fd], which makes a socket block for all that have it.
	err = raw.Control(func(fd uintptr) {
		_, _, sent = over.WriteMsgUnix([]byte{0}, unix.UnixRights(int(fd)), nil)
	})
	return errors.Join(err, sent)
}

// receiveFile is the other side of sendFile.
func receiveFile(over *net.UnixConn) (*os.File, error) {
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
	return os.NewFile(uintptr(fds[0]), "passed"), nil
}
