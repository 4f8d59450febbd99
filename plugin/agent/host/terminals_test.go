//go:build linux || darwin

package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/neighbours"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestSharedLater: an open question hears of a program that comes to its terminal,
// and of one that waits no longer.
func TestSharedLater(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.policy(consent.Policy{Mode: consent.Writes})
	first, second, _ := neighbours.Start(t)
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
		"an open UI": func(*asker) *asker { return &asker{answer: always(false, hsm.ErrNoTerminal)} }, // a UI like this runs in the background
		"pinentry": func(p *asker) *asker {
			p.reaching, p.reach = true, hsm.ErrNoTerminal
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			r.policy(consent.Policy{Mode: consent.Writes})
			first, second, _ := neighbours.Start(t)
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
	first, second, end := neighbours.Start(t)
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
	ask("POST ", false) // a single session so far
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
