//go:build linux && cgo

package host

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/port"
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

// TestPortIsHeld: a program that outlives the agent is told 401 by the next one, which its
// connection starts. A refused connection would not have client-go run the plugin.
func TestPortIsHeld(t *testing.T) {
	t.Parallel()
	r := newHeldRig(t)
	s, before := r.signedIn()
	if code, body := r.get(s, "/version"); code != 200 {
		t.Fatal(code, body)
	}
	check(t, syscall.Kill(before.PID, syscall.SIGKILL))
	poll.Until(t, "the agent is gone", func() bool { return !r.runs() })
	code, body := r.get(s, "/version")
	now := r.status()
	if code != 401 || !strings.Contains(body, "run the command again") || now.PID == before.PID ||
		now.BridgeError != "" || len(now.Workers) > 0 {
		t.Errorf("%d: %s\n%+v", code, body, now)
	}
	poll.Until(t, "the holder has ended", func() bool { return !r.held() })
}
