package flowtest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/host"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Agent has a real agent run in this process, over the tokens of e, until the test ends.
func Agent(t testing.TB, e *env.Env) {
	t.Helper()
	if _, err := e.Bridge(); err != nil { // the agent must not make the bridge's files while the test compares
		t.Fatal(err)
	}
	var drivers hsm.Drivers
	for _, d := range e.Drivers {
		drivers = append(drivers, keepOpen{d})
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- host.Serve(ctx, host.Options{Dirs: e.Dirs, Tokens: worker.InProcess(drivers), Version: e.Version})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the agent: %v", err)
		}
	})
	for {
		c, err := client.Dial(ctx, e.Dirs)
		switch {
		case err == nil:
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			return
		case !errors.Is(err, client.ErrNotRunning):
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			t.Fatalf("the agent: %v", err)
		default:
		}
	}
}

// Stuck puts something in the agent's place that hangs up on everybody, until gone is
// called or the test ends.
func (w *World) Stuck() (gone func() error) {
	w.T.Helper()
	must.OK(w.T, w.Env.Dirs.Prepare())
	l, err := net.Listen("unix", w.Env.Dirs.Socket())
	must.OK(w.T, err)
	gone = sync.OnceValue(l.Close)
	w.T.Cleanup(func() { _ = gone() }) // the error was the test's to look at
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close() // hanging up is the purpose
		}
	}()
	return gone
}

// keepOpen is a driver that serves the test, too, after an agent has ended.
type keepOpen struct{ hsm.Driver }

func (keepOpen) Close() error { return nil }
