//go:build linux && cgo

package host

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/port"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/poll"
)

// heldRig is a rig whose agents are processes, and whose client is this one.
type heldRig struct{ moodyRig }

func newHeldRig(t *testing.T) heldRig {
	r := heldRig{newMoodyRig(t)}
	t.Cleanup(func() {
		if c, err := client.Dial(context.Background(), r.dirs); err == nil {
			check(t, errors.Join(only(c.Stop(context.Background())), c.Close()))
		}
		r.release()
	})
	return r
}

// release has the port given up. A holder whose agent is about to end refuses that.
func (r heldRig) release() {
	r.t.Helper()
	poll.Until(r.t, "the port is given up", func() bool { return port.Release(r.dirs) == nil })
}

// signedIn starts an agent if none runs, and waits until the port is held for this process.
func (r heldRig) signedIn() (message.Session, message.Status) {
	r.t.Helper()
	c := r.ensure("held")
	defer c.Close()
	s, err := r.prepare(c, process.This(), hsmtest.NewScript(r.t, hsmtest.PIN(r.pin)))
	check(r.t, err)
	poll.Until(r.t, "the port is held", r.held)
	st, err := c.Status(r.t.Context())
	check(r.t, err)
	return s, st
}

func (r heldRig) held() bool {
	_, err := os.Stat(r.dirs.PortSocket())
	return err == nil
}

// TestPortIsHeld: a program that outlives the agent, however that ends, is told
// 401 by the next one, which its connection starts. A refused connection would
// not have client-go run the plugin.
func TestPortIsHeld(t *testing.T) {
	t.Parallel()
	r := newHeldRig(t)
	for what, end := range map[string]func(c *client.Client, pid int) error{
		"stopped": func(c *client.Client, _ int) error { return only(c.Stop(t.Context())) },
		"replaced": func(c *client.Client, _ int) (err error) {
			poll.Until(t, "nothing is open", func() bool {
				err = c.Retire(t.Context())
				return !errors.Is(err, message.ErrInUse)
			})
			return err
		},
		"killed": func(_ *client.Client, pid int) error { return syscall.Kill(pid, syscall.SIGKILL) },
	} {
		t.Run(what, func(t *testing.T) {
			s, before := r.signedIn()
			if code, body := r.get(s, "/version"); code != 200 {
				t.Fatal(code, body)
			}
			c := r.dial()
			check(t, end(c, before.PID))
			poll.Until(t, "the agent is gone", func() bool { return !r.runs() })
			code, body := r.get(s, "/version")
			now := r.status()
			if code != 401 || !strings.Contains(body, "run the command again") || now.PID == before.PID ||
				now.BridgeError != "" || len(now.Workers) > 0 {
				t.Errorf("%d: %s\n%+v", code, body, now)
			}
			poll.Until(t, "the holder has ended", func() bool { return !r.held() })
		})
	}
}

// TestNextAgentTakesThePort: an agent that a command starts gets the port of the
// holder. Released, it is free.
func TestNextAgentTakesThePort(t *testing.T) {
	t.Parallel()
	r := newHeldRig(t)
	_, before := r.signedIn()
	check(t, syscall.Kill(before.PID, syscall.SIGKILL))
	poll.Until(t, "the agent is gone", func() bool { return !r.runs() })
	if l, err := loopback.Listen(r.ep); !errors.Is(err, loopback.ErrPortTaken) {
		t.Fatalf("the port is free: %v %v", l, err)
	}
	s, now := r.signedIn()
	if code, body := r.get(s, "/version"); code != 200 || now.PID == before.PID || now.BridgeError != "" {
		t.Fatalf("%d: %s\n%+v", code, body, now)
	}
	check(t, only(r.dial().Stop(t.Context())))
	poll.Until(t, "the agent is gone", func() bool { return !r.runs() })
	if !r.held() {
		t.Fatal("the port is not held")
	}
	r.release()
	poll.Until(t, "the port is free", func() bool {
		l, err := loopback.Listen(r.ep)
		if err == nil {
			check(t, l.Close())
		}
		return err == nil
	})
}

// TestSuspendedHolder: a holder that is suspended keeps the port from nobody.
func TestSuspendedHolder(t *testing.T) {
	t.Parallel()
	r := newHeldRig(t)
	_, before := r.signedIn()
	agent := strconv.Itoa(before.PID)
	entries, err := os.ReadDir("/proc")
	check(t, err)
	i := slices.IndexFunc(entries, func(e os.DirEntry) bool {
		pid, err := strconv.Atoi(e.Name())
		return err == nil && len(stat(pid)) > 1 && stat(pid)[1] == agent && isVerb(pid, "hold")
	})
	if i < 0 {
		t.Fatal("there is no holder")
	}
	holder, err := strconv.Atoi(entries[i].Name())
	check(t, err)
	check(t, syscall.Kill(holder, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(holder, syscall.SIGKILL) }) // the holder has ended unless the test failed
	poll.Until(t, "the holder is suspended", func() bool { return stat(holder)[0] == "T" })
	check(t, syscall.Kill(before.PID, syscall.SIGKILL))
	poll.Until(t, "the agent is gone", func() bool { return !r.runs() })
	s, now := r.signedIn()
	if code, body := r.get(s, "/version"); code != 200 || now.BridgeError != "" {
		t.Errorf("%d: %s\n%+v", code, body, now)
	}
}
