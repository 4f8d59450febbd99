//go:build linux || darwin

package queue

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/neighbours"
)

// TestTurns: a terminal has one question at a time, and between those of two
// programs there is time to print the first one's result.
func TestTurns(t *testing.T) {
	first, second, _ := neighbours.Start(t)
	c := exec.Command("sleep", "600")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must.OK(t, c.Start())
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	elsewhere := process.Of(c.Process.Pid) // without a terminal
	synctest.Test(t, func(t *testing.T) {
		s, ctx := New(), t.Context()
		ask := func(ctx, answered context.Context, client process.ID) (took <-chan func(bool)) {
			c := make(chan func(bool), 1)
			go func() {
				leave, err := s.Ask(ctx, answered, client, true)
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				c <- leave
			}()
			synctest.Wait()
			return c
		}
		after := func(d time.Duration, waits <-chan func(bool), why string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if len(waits) > 0 {
				t.Fatal(why)
			}
		}
		request, answered := context.WithCancel(ctx)
		leave := <-ask(ctx, request, first)
		waits := ask(ctx, ctx, second)
		after(0, waits, "two at a time")
		(<-ask(ctx, ctx, elsewhere))(true)

		leave(true)
		after(printWait/4, waits, "the first one's request is not answered yet")
		answered()
		after(printPause-1, waits, "it has not had the time to print")
		for range 3 {
			request, answered = context.WithCancel(ctx)
			s.Covered(request, first)
			after(1, waits, "it goes on")
			answered()
			after(printPause-1, waits, "it has not had the time to print that")
		}
		s.Covered(ctx, elsewhere)
		time.Sleep(time.Nanosecond)
		(<-waits)(true) // a request without end
		before := time.Now()
		(<-ask(ctx, ctx, second))(false)
		if time.Since(before) > 0 {
			t.Error("a program waits for itself")
		}
		(<-ask(ctx, ctx, first))(false)
		if d := time.Since(before); d != printWait {
			t.Errorf("after %s", d)
		}
		synctest.Wait()
		if len(s.printing)+len(s.taken)+len(s.elsewhere) > 0 {
			t.Errorf("left: %+v", s)
		}

		(<-ask(ctx, ctx, second))(true)
		gone, leaves := context.WithCancel(ctx)
		none := ask(gone, ctx, first)
		leaves()
		if <-none != nil {
			t.Error("a turn for one who left")
		}
		(<-ask(ctx, ctx, second))(false) // the turn was given back
	})
}
