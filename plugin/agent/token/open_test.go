package token

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// client is a program that can be asked, and waits meanwhile.
type client struct {
	id  process.ID
	now *ask.Wait // the wait that the client was told of
}

func (c *client) Process() process.ID               { return c.id }
func (c *client) ShowWait(w ask.Wait) (done func()) { c.now = &w; return func() { c.now = nil } }

// TestTold: a client that waits hears of the question that is open elsewhere, until it is
// answered. The client that shows the question, and the one that it is asked for, do not.
func TestTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, ui, other := &client{id: process.ID{PID: 1 << 30, Start: 1}}, &client{id: process.ID{PID: 1<<30 + 1,
			Start: 1}},
			&client{id: process.ID{PID: 1<<30 + 2, Start: 1}}
		h := newHeld(hsm.URI{}, Options{})
		for _, c := range []*client{asked, ui, other} {
			defer h.Questions().Tell(c)()
		}
		answer := make(chan struct{})
		ended := make(chan error, 1)
		p := h.ask(Use{Client: asked.id, Purpose: hsm.Purpose{Cluster: "prod", Action: "sign in"},
			Ask: func(_ context.Context, q ask.Question) (ask.Answer, error) {
				if q.PIN.Purpose.Cluster != "prod" {
					t.Errorf("purpose %+v", q.PIN.Purpose)
				}
				<-answer
				q.ShownBy(ui)
				<-answer
				return ask.Answer{}, hsm.ErrCancelled
			}}, newTouches(t.Context()))
		go func() {
			_, err := p.PIN(t.Context(), hsm.PINPrompt{Kind: hsm.UserPIN, Token: hsm.TokenInfo{Label: "lab"}})
			ended <- err
		}()
		want := ask.Wait{For: ask.ForPIN, Kind: "PIN", Token: "lab", Client: asked.id}
		synctest.Wait()
		if asked.now != nil || ui.now == nil || *ui.now != want || other.now == nil || *other.now != want {
			t.Errorf("before it is shown: %v, %v, %v", asked.now, ui.now, other.now)
		}
		want.Asker = ui.id
		answer <- struct{}{}
		synctest.Wait()
		if ui.now != nil || asked.now == nil || *asked.now != want || other.now == nil || *other.now != want {
			t.Errorf("where it is shown elsewhere: %v, %v, %v", asked.now, ui.now, other.now)
		}
		answer <- struct{}{}
		synctest.Wait()
		if err := <-ended; !errors.Is(err, hsm.ErrCancelled) || asked.now != nil || other.now != nil {
			t.Errorf("after it: %v, %v, %v", err, asked.now, other.now)
		}
	})
}

// TestNotice: a notice comes with a PIN prompt and with a touch. It counts as seen when the token has
// taken what a person answered: a PIN, or a touch that there was time to read the line of.
func TestNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		h := newHeld(hsm.URI{}, Options{Notice: func(*Held) (string, func()) { return "read this", func() { told++ } }})
		var notice string
		failure, given := hsm.ErrCancelled, false
		w := newTouches(t.Context())
		p := h.ask(Use{Ask: func(_ context.Context, q ask.Question) (ask.Answer, error) {
			switch {
			case q.PIN != nil:
				notice = q.PIN.Purpose.Notice
			case q.Touch != nil:
				notice = q.Touch.Purpose.Notice
			}
			return ask.Answer{Given: given}, failure
		}}, w)
		step := func(what string, f func(), want int) {
			t.Helper()
			notice = ""
			f()
			if notice != "read this" || told != want {
				t.Errorf("%s: notice %q, told %d times", what, notice, told)
			}
		}
		pin := func() { _, _ = p.PIN(t.Context(), hsm.PINPrompt{Kind: hsm.UserPIN}) }
		touch := func(d time.Duration) func() {
			return func() { done := p.Touch(t.Context(), hsm.TouchPrompt{}); time.Sleep(d); done(); done() }
		}
		step("declined", pin, 0)
		failure, given = nil, true
		step("answered by a file", pin, 0)
		w.taken()
		given = false
		step("answered, by anything", pin, 0)
		w.taken()
		step("answered by what the token took", func() { pin(); w.taken() }, 2)
		for _, other := range []hsm.PINPrompt{{Kind: hsm.PUK}, {Kind: hsm.SOPIN}, {Kind: hsm.PIVPIN, New: true}} {
			if _, err := p.PIN(t.Context(), other); !errors.Is(err, hsm.ErrModule) {
				t.Errorf("a library asks for more than the PIN, %+v: %v", other, err)
			}
		}
		step("a short touch", func() { touch(readTime - 1)(); w.taken() }, 2)
		step("a touch", func() { touch(readTime)(); w.taken() }, 3)
	})
}

// TestTouchThatNobodyMakes: the error says so when nobody touched the token in time. Any
// other error stays what it is.
func TestTouchThatNobodyMakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		h := newHeld(hsm.URI{}, Options{})
		w := newTouches(ctx)
		p := h.ask(Use{Ask: ask.Nobody(hsm.ErrNoTerminal)}, w)
		p.Touch(ctx, hsm.TouchPrompt{})() // the touch was made
		awaited := p.Touch(ctx, hsm.TouchPrompt{})
		lost := errors.New("the connection was lost")
		if err := w.explain(lost); !errors.Is(err, lost) {
			t.Errorf("in time: %v", err)
		}
		<-ctx.Done()
		awaited()
		if err := w.explain(lost); !errors.Is(err, hsm.ErrTouchTimeout) {
			t.Errorf("too late: %v", err)
		}
		if err := w.explain(hsm.ErrRemoved); !errors.Is(err, hsm.ErrRemoved) {
			t.Errorf("the token's own error: %v", err)
		}
	})
}
