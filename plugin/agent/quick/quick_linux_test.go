package quick

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/test/need"
)

var must = need.NoError

// listen listens at path as the user of that number.
func listen(t *testing.T, path string, uid int) net.Listener {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its user
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			failed <- errno
			return
		}
		failed <- unix.Listen(fd, 8) // whose credentials the other end sees (unix(7))
	}()
	must(t, <-failed)
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	l, err := net.FileListener(f)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// squat answers one client with b, and returns what it was sent.
func squat(t *testing.T, uid int, b []byte) (answer, heard []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.sock")
	l := listen(t, path, uid)
	said := make(chan []byte, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			close(said)
			return
		}
		defer c.Close()
		_, _ = c.Write(b) // the client may have left
		if err := c.(*net.UnixConn).CloseWrite(); err != nil {
			t.Error(err)
		}
		all, _ := io.ReadAll(c)
		said <- all
	}()
	answer = Credential("/proc/self/exe", path, wire.Credential{Enrollment: "prod", ExecInfo: "{}"})
	return answer, <-said
}

// TestSquatter: another user's socket is told nothing, and not believed.
func TestSquatter(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Missing(t, "only root can be another user")
	}
	good := append([]byte{0, 0, 0, 2, wire.KindSecret}, "{}"...)
	if answer, heard := squat(t, os.Geteuid(), good); string(answer) != "{}" || len(heard) == 0 {
		t.Fatalf("our own user's: %q, which heard %q", answer, heard)
	}
	if answer, heard := squat(t, 65534, good); answer != nil || len(heard) != 0 {
		t.Errorf("another user's: %q, which heard %q", answer, heard)
	}
}

// TestOddAnswers: what is not one whole frame with a credential is none.
func TestOddAnswers(t *testing.T) {
	for _, b := range []string{"", "\x00", "\x00\x00\x00\x02S{", "\x00\x00\x00\x02J{}", "\x00\x00\x00\x02X{}",
		"\xff\xff\xff\xffS{}"} {
		if answer, _ := squat(t, os.Geteuid(), []byte(b)); answer != nil {
			t.Errorf("%q: %q", b, answer)
		}
	}
}
