//go:build linux || darwin

package agent

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/poll"
)

// neighbours starts two programs on one terminal; end ends the second.
func neighbours(t *testing.T) (first, second process.ID, end func()) {
	t.Helper()
	master, tty, err := pty.Open()
	check(t, err)
	// The end of the shell, which leads the session, would end both.
	c := exec.Command("sh", "-c", "sleep 600 & echo $!; sleep 600 & echo $!; wait")
	c.Stdin, c.SysProcAttr = tty, &syscall.SysProcAttr{Setsid: true, Setctty: true}
	out, err := c.StdoutPipe()
	check(t, err)
	check(t, c.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait() // it was killed
		_ = tty.Close()
		_ = master.Close()
	})
	var pids [2]int
	_, err = fmt.Fscan(out, &pids[0], &pids[1])
	check(t, err)
	first, second = process.Of(pids[0]), process.Of(pids[1])
	if first.Terminal() == 0 || first.Terminal() != second.Terminal() {
		t.Fatalf("terminals %x and %x", first.Terminal(), second.Terminal())
	}
	return first, second, func() {
		check(t, syscall.Kill(second.PID, syscall.SIGKILL))
		poll.Until(t, "the second has ended", func() bool { return !second.Alive() })
	}
}

// TestTurns: a terminal has one question at a time, and between those of two
// programs there is time to print the first one's result.
func TestTurns(t *testing.T) {
	first, second, _ := neighbours(t)
	elsewhere, _ := running(t)
	synctest.Test(t, func(t *testing.T) {
		s, ctx := newTurns(), t.Context()
		ask := func(ctx, answered context.Context, client process.ID) (took <-chan func(bool)) {
			c := make(chan func(bool), 1)
			go func() {
				leave, err := s.ask(ctx, answered, client, true)
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
			s.covered(request, first)
			after(1, waits, "it goes on")
			answered()
			after(printPause-1, waits, "it has not had the time to print that")
		}
		s.covered(ctx, elsewhere)
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

// TestSharedLater: an open question hears of a program that comes to its terminal,
// and of one that waits no longer.
func TestSharedLater(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.policy(consent.Policy{Mode: consent.Writes})
	first, second, _ := neighbours(t)
	_, c := r.sessionOf(first)
	comes := func() { r.sessionOf(second) }
	r.attended(first, &asker{answer: func(_ context.Context, q ask.Question) (bool, error) {
		if q.Shared() {
			return false, errors.New("nobody else is there")
		}
		comes()
		return poll.Within(time.Minute, func() bool { return q.Shared() }), nil
	}})
	if code, body := r.send(t.Context(), c, "DELETE", pods+"/p"); code != served {
		t.Fatalf("%d %s", code, body)
	}
	r.mustAgent(func(a *agent) {
		release, _ := a.answers.Hold(second)
		comes = func() { release(); a.terminals.mayWrite(second) }
	})
	if code, body := r.send(t.Context(), c, "POST", pods); code != served {
		t.Fatalf("%d %s", code, body)
	}
}

// TestAskedElsewhere: who is asked about elsewhere keeps nobody from being asked on
// the terminal, and may write to it any time.
func TestAskedElsewhere(t *testing.T) {
	for name, attendant := range map[string]func(elsewhere *asker) *asker{
		"an open UI": func(*asker) *asker { return &asker{answer: always(false, hsm.ErrNoTerminal)} }, // it runs in the background
		"pinentry": func(p *asker) *asker {
			p.reaching, p.reach = true, hsm.ErrNoTerminal
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			r.policy(consent.Policy{Mode: consent.Writes})
			first, second, _ := neighbours(t)
			open := make(chan struct{})
			elsewhere := &asker{answer: func(ctx context.Context, _ ask.Question) (bool, error) {
				select {
				case <-open:
					return true, nil
				case <-ctx.Done():
					return false, ctx.Err()
				}
			}}
			r.attended(process.ID{}, elsewhere)
			r.attended(first, attendant(elsewhere))
			p := &asker{answer: always(true, nil)}
			r.attended(second, p)
			_, background := r.sessionOf(first)
			_, c := r.sessionOf(second)
			done := make(chan int, 1)
			go func() {
				code, _, _ := r.trySend(t.Context(), background, "DELETE", pods+"/p")
				done <- code
			}()
			poll.Until(t, "it is asked elsewhere", func() bool { return elsewhere.asked() == 1 })
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if code, body := r.send(ctx, c, "DELETE", pods+"/q"); code != served || p.asked() != 1 || !p.shared[0] {
				t.Errorf("%d %s, %+v", code, body, p.questions)
			}
			close(open)
			if code := <-done; code != served {
				t.Error(code)
			}
		})
	}
}

// TestSharedTerminal: a question says whether others may write to the terminal.
func TestSharedTerminal(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.policy(consent.Policy{Mode: consent.Writes})
	first, second, end := neighbours(t)
	_, c := r.sessionOf(first)
	p := &asker{answer: always(true, nil)}
	r.attended(first, p)
	ask := func(what string, shared bool) {
		t.Helper()
		asked := p.asked()
		method, path, _ := strings.Cut(what, " ")
		if code, body := r.send(t.Context(), c, method, pods+path); code != served || p.asked() != asked+1 {
			t.Fatalf("%s: %d %s", what, code, body)
		}
		if p.shared[asked] != shared {
			t.Errorf("%s: shared is %t", what, p.shared[asked])
		}
	}
	ask("POST ", false) // nobody else has a session
	r.sessionOf(second)
	ask("DELETE /p", true)
	r.mustAgent(func(a *agent) {
		release, _ := a.answers.Hold(first)
		defer release()
		if a.terminals.shared(second) || !a.terminals.shared(first) {
			t.Error("a program writes nothing while it waits for an answer, others do")
		}
	})
	end()
	ask("GET /p/exec", false)
}
