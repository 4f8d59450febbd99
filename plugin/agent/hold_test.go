//go:build unix

package agent

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/poll"
)

// heldRig is a rig whose agents are processes, and whose client is this one.
type heldRig struct {
	moodyRig
	exe string
}

func newHeldRig(t *testing.T) heldRig {
	m := newMoodyRig(t)
	t.Setenv(agentProgram, "held")
	exe, err := os.Executable()
	check(t, err)
	r := heldRig{m, exe}
	t.Cleanup(func() {
		if c, err := Dial(context.Background(), r.dirs); err == nil {
			check(t, errors.Join(only(c.stop(context.Background())), c.Close()))
		}
		check(t, ReleasePort(r.dirs))
	})
	return r
}

// signedIn starts an agent if none runs, and waits until the port is held for this process.
func (r heldRig) signedIn() (Session, Status) {
	r.t.Helper()
	c, err := Ensure(r.t.Context(), r.dirs, r.exe)
	check(r.t, err)
	defer c.Close()
	s, err := r.prepare(c, process.This(), hsmtest.NewScript(r.t, hsmtest.PIN(r.pin)))
	check(r.t, err)
	poll.Until(r.t, "the port is held", r.held)
	st, err := c.Status(r.t.Context())
	check(r.t, err)
	return s, st
}

func (r heldRig) held() bool {
	_, err := os.Stat(holdSocket(r.dirs))
	return err == nil
}

func (r heldRig) gone() bool {
	c, err := Dial(r.t.Context(), r.dirs)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, ErrNotRunning)
}

// TestPortIsHeld: a program that outlives the agent, however that ends, is told
// 401 by the next one, which its connection starts. A refused connection would
// not have client-go run the plugin.
func TestPortIsHeld(t *testing.T) {
	r := newHeldRig(t)
	for what, end := range map[string]func(c *Client, pid int) error{
		"stopped": func(c *Client, _ int) error { return only(c.stop(t.Context())) },
		"replaced": func(c *Client, _ int) (err error) {
			poll.Until(t, "nothing is open", func() bool {
				err = c.retire(t.Context())
				return !errors.Is(err, ErrInUse)
			})
			return err
		},
		"killed": func(_ *Client, pid int) error { return syscall.Kill(pid, syscall.SIGKILL) },
	} {
		t.Run(what, func(t *testing.T) {
			s, before := r.signedIn()
			if code, body := r.get(s, "/version"); code != 200 {
				t.Fatal(code, body)
			}
			c := r.dial()
			check(t, end(c, before.PID))
			poll.Until(t, "the agent is gone", r.gone)
			code, body := r.get(s, "/version")
			now := r.status()
			if code != 401 || !strings.Contains(body, "run the command again") || now.PID == before.PID || now.BridgeError != "" || len(now.Workers) > 0 {
				t.Errorf("%d: %s\n%+v", code, body, now)
			}
			poll.Until(t, "the holder has ended", func() bool { return !r.held() })
		})
	}
}

// TestNextAgentTakesThePort: an agent that a command starts gets the port of the
// holder. Released, it is free.
func TestNextAgentTakesThePort(t *testing.T) {
	r := newHeldRig(t)
	_, before := r.signedIn()
	check(t, syscall.Kill(before.PID, syscall.SIGKILL))
	poll.Until(t, "the agent is gone", r.gone)
	if l, err := bridge.Listen(r.ep); !errors.Is(err, bridge.ErrPortTaken) {
		t.Fatalf("the port is free: %v %v", l, err)
	}
	s, now := r.signedIn()
	if code, body := r.get(s, "/version"); code != 200 || now.PID == before.PID || now.BridgeError != "" {
		t.Fatalf("%d: %s\n%+v", code, body, now)
	}
	check(t, only(r.dial().stop(t.Context())))
	poll.Until(t, "the agent is gone", r.gone)
	if !r.held() {
		t.Fatal("the port is not held")
	}
	check(t, ReleasePort(r.dirs))
	poll.Until(t, "the port is free", func() bool {
		l, err := bridge.Listen(r.ep)
		if err == nil {
			check(t, l.Close())
		}
		return err == nil
	})
}

// TestHolder: a holder keeps the port for programs that live, gives it to nobody
// while its agent lives, and leaves nothing behind.
func TestHolder(t *testing.T) {
	dir := t.TempDir()
	d, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: dir}[k] })
	check(t, err)
	check(t, d.Prepare())
	t.Setenv(home.EnvHome, d.Home)
	exe, err := os.Executable()
	check(t, err)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	address := l.Addr().String()
	free := func() bool {
		l, err := net.Listen("tcp4", address)
		if err == nil {
			check(t, l.Close())
		}
		return err == nil
	}
	client := exec.Command("sleep", "3600")
	check(t, client.Start())
	h, err := startHold(exe, l.(*net.TCPListener))
	check(t, err)
	many := slices.Repeat([]process.ID{{PID: client.Process.Pid, Start: 1}}, 3000) // a start time of 1: all have ended
	check(t, h.tell(append(many, process.Of(client.Process.Pid))))
	poll.Until(t, "it listens", func() bool {
		_, err := os.Stat(holdSocket(d))
		return err == nil
	})
	if stolen, err := takePort(d); err == nil {
		t.Fatalf("somebody has %s while the agent lives", stolen.Addr())
	}
	check(t, l.Close())
	h.leave(false)
	if free() || h.ended() {
		t.Fatal("the port is free")
	}
	check(t, client.Process.Kill())
	_ = client.Wait() // the client was killed
	<-h.done
	if _, err := os.Stat(holdSocket(d)); err == nil || !free() {
		t.Fatalf("it left something: %v", err)
	}
}

// TestPassedPort: systemd's listening socket is the bridge's, if it is at the
// bridge's address, and stays open without the agent.
func TestPassedPort(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	right, err := bridge.Listen(r.ep)
	check(t, err)
	for _, l := range []net.Listener{right, other} {
		passed, err := l.(*net.TCPListener).File()
		check(t, err)
		check(t, l.Close())
		r.serve(Options{Port: passed, Supervised: true})
		s := r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
		if code, body := r.get(s, "/version"); code != 200 {
			t.Error(code, body)
		}
		r.end()
		// Nobody accepts it, but it is not refused.
		c, err := net.Dial("tcp4", r.ep.Address())
		if err == nil {
			check(t, c.Close())
		}
		if held := l == right; held != (err == nil) {
			t.Errorf("held %t: %v", held, err)
		}
		check(t, passed.Close())
	}
}

// TestPassedPortIsOurs: what systemd has passed to another process is not taken,
// and nothing that this one starts thinks it was meant.
func TestPassedPortIsOurs(t *testing.T) {
	for _, pid := range []string{"", "1", "x"} {
		env := map[string]string{"LISTEN_PID": pid, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "a"}
		f, err := PassedPort(func(k string) string { return env[k] }, func(k string) error { delete(env, k); return nil })
		if f != nil || err != nil || len(env) > 0 {
			t.Errorf("%q: %v %v %v", pid, f, err, env)
		}
	}
}
