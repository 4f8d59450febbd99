//go:build unix

package port

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/process/child"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
)

var check = need.NoError

// TestMain is a holder where [Start] has started this program.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{"agent", "hold"}) {
		if err := hold(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func hold() error {
	handTimeout, holdSweep = 200*time.Millisecond, 200*time.Millisecond
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	d, err := home.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	control, err := child.Control()
	if err != nil {
		return err
	}
	return Serve(ctx, d, "/nonexistent/kubehsm", control)
}

// started is a holder of a port.
func started(t *testing.T) (home.Dirs, *net.TCPListener, *Holder) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv(home.EnvHome, dir)
	d, err := home.FromEnv(os.Getenv)
	check(t, err)
	check(t, d.Prepare())
	exe, err := os.Executable()
	check(t, err)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = l.Close() }) // the test may have closed the listener
	h, err := Start(exe, l.(*net.TCPListener))
	check(t, err)
	return d, l.(*net.TCPListener), h
}

// running is a program that has a session.
func running(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.Command("sleep", "3600")
	check(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() }) // the program may have ended
	return c
}

func free(t *testing.T, address string) bool {
	t.Helper()
	l, err := net.Listen("tcp4", address)
	if err == nil {
		check(t, l.Close())
	}
	return err == nil
}

// TestHolder: a holder keeps the port for programs that live, gives it to nobody
// while its agent lives, and leaves nothing behind.
func TestHolder(t *testing.T) {
	d, l, h := started(t)
	address := l.Addr().String()
	client := running(t)
	many := slices.Repeat([]process.ID{{PID: client.Process.Pid, Start: 1}}, 3000) // a start time of 1: all have ended
	check(t, h.Tell(append(many, process.Of(client.Process.Pid))))
	poll.Until(t, "it listens, and gives the port to nobody", func() bool {
		stolen, err := Take(d)
		if stolen != nil {
			t.Errorf("somebody has %s while the agent lives", stolen.Addr())
		}
		return err != nil
	})
	check(t, l.Close())
	h.Leave(false)
	if free(t, address) || h.Ended() {
		t.Fatal("the port is free")
	}
	check(t, client.Process.Kill())
	_ = client.Wait() // the client was killed
	poll.Until(t, "the holder has ended", h.Ended)
	if _, err := os.Stat(d.PortSocket()); err == nil || !free(t, address) {
		t.Fatalf("it left something: %v", err)
	}
}

// TestNobodyHolds: where no agent has left a holder there is nothing to take, or to end.
func TestNobodyHolds(t *testing.T) {
	t.Setenv(home.EnvHome, t.TempDir())
	d, err := home.FromEnv(os.Getenv)
	check(t, err)
	check(t, d.Prepare())
	if l, err := Take(d); l != nil || err != nil {
		t.Errorf("%v, %v", l, err)
	}
	check(t, Release(d))
}

// TestNoClients: a port holder ends with its agent if no client has a session.
func TestNoClients(t *testing.T) {
	_, l, h := started(t)
	address := l.Addr().String()
	check(t, h.Tell(nil))
	check(t, l.Close())
	h.Leave(true)
	poll.Until(t, "the holder has ended", h.Ended)
	if !free(t, address) {
		t.Error("the port is not free")
	}
}

// TestHolderEndsWhenAsked: a holder that ends with the question in its backlog is none.
func TestHolderEndsWhenAsked(t *testing.T) {
	t.Setenv(home.EnvHome, t.TempDir())
	d, err := home.FromEnv(os.Getenv)
	check(t, err)
	check(t, d.Prepare())
	l, err := net.Listen("unix", d.PortSocket())
	check(t, err)
	f, err := l.(*net.UnixListener).File()
	check(t, err)
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(awaitReadable(f), l.Close(), f.Close()) }()
	if got, err := Take(d); got != nil || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	check(t, <-ended)
}
