package socket

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

// TestPipe: both ends know each other, and the name goes with the listener.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	if _, err := Dial(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before anybody listens: %v", err)
	}
	l, err := Listen(path)
	check(t, err)
	if second, err := Listen(strings.ToUpper(path)); err == nil {
		t.Error("two listen on one pipe", second.Close())
	}
	heard := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			heard <- ""
			return
		}
		if peer, err := Peer(c); err != nil || peer != process.This() {
			t.Errorf("the client is %+v, not %+v: %v", peer, process.This(), err)
		}
		b := make([]byte, 4)
		if _, err := io.ReadFull(c, b); err != nil {
			t.Error(err)
		}
		if _, err := c.Write([]byte("answer")); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		heard <- string(b)
	}()
	c, err := Dial(t.Context(), path)
	check(t, err)
	if pid := PeerPID(c); pid != os.Getpid() {
		t.Errorf("the server is process %d", pid)
	}
	if _, err := c.Write([]byte("four")); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "four" {
		t.Errorf("the server heard %q", got)
	}
	if b, err := io.ReadAll(c); err != nil || string(b) != "answer" { // after the other end's close
		t.Errorf("the client heard %q, %v", b, err)
	}
	if id, err := Peer(c); id.Start != 0 || !errors.Is(err, process.ErrEnded) {
		t.Errorf("the peer has gone, and is %+v: %v", id, err)
	}
	if err := errors.Join(c.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if _, err := Dial(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the listener's end: %v", err)
	}
}

// TestOnlyOurs: the pipe is our own user's, and its list names nobody else.
func TestOnlyOurs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := Listen(path)
	check(t, err)
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			defer c.Close()
			_, _ = io.Copy(io.Discard, c) // until the client closes
		}
	}()
	c, err := Dial(t.Context(), path)
	check(t, err)
	defer c.Close()
	h, server, err := pipe(c)
	if err != nil || server {
		t.Fatal(server, err)
	}
	sd, err := windows.GetSecurityInfo(h, windows.SE_KERNEL_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	check(t, err)
	own, err := user()
	check(t, err)
	if text := sd.String(); !strings.HasPrefix(text, "O:"+own.String()) || strings.Count(text, "(") != 1 ||
		!strings.Contains(text, ";;;"+own.String()+")") {
		t.Errorf("%s, and we are %s", text, own)
	}
}

// TestBusy: a server that accepts nobody is not waited for without end.
func TestBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := Listen(path)
	check(t, err)
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that gives up: %v", err)
	}
	if _, err := Dial(t.Context(), path); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("a server that accepts nobody: %v", err)
	}
}

// TestCheck: what is refused is refused before anything is made or removed.
func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(path, []byte("mine"), 0o600))
	if l, err := Listen(path); err == nil {
		t.Error("a file was hidden", l.Close())
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("the file: %q, %v", b, err)
	}
}
