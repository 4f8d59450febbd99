package service

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/test/need"
)

// asNobody connects to the socket at path as another user, who is asked for by
// the kernel when the connection is made (unix(7), SO_PEERCRED).
func asNobody(path string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	connected := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its user
		const nobody = 65534
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), nobody, ^uintptr(0)); errno != 0 {
			connected <- errno
			return
		}
		connected <- unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	}()
	if err := <-connected; err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), path), nil
}

// TestAnotherUser: the file system keeps other users out, and where it does not,
// so does the service, which tells them nothing.
func TestAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Missing(t, "only root can be another user")
	}
	folder, err := os.MkdirTemp("", "signer")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	path := filepath.Join(folder, "sock")
	var mu sync.Mutex
	var noted []string
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- ListenAndServe(ctx, path, Options{
			Answer: func(context.Context, externalsigner.Request, func(string)) (externalsigner.Answer, error) {
				t.Error("it was answered")
				return externalsigner.Answer{}, nil
			},
			Log: func(line string) { mu.Lock(); defer mu.Unlock(); noted = append(noted, line) },
		}, func() { close(ready) })
	}()
	<-ready
	if _, err := asNobody(path); !errors.Is(err, unix.EACCES) {
		t.Errorf("another user connects: %v", err)
	}
	check(t, errors.Join(os.Chmod(folder, 0o755), os.Chmod(path, 0o666)))
	c, err := asNobody(path)
	check(t, err)
	defer c.Close()
	// it may be closed already
	_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	if b, err := io.ReadAll(c); len(b) > 0 || err != nil && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("another user is told %q, %v", b, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(noted) != 1 || !strings.Contains(noted[0], "belongs to another user (user id 65534)") {
		t.Errorf("noted %q", noted)
	}
}
