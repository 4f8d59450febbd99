package agent

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// asks are the questions about one token that are open. Who waits for the token
// meanwhile, on another terminal, is told of them.
type asks struct {
	mu      sync.Mutex
	open    []*ask        // the latest last
	changed chan struct{} // closed with every change
}

// ask is an open question.
type ask struct {
	wire.Wait
	by *remotePrompter // who shows it; nil if that is not a client of the agent
	of *asks
}

func newAsks() *asks { return &asks{changed: make(chan struct{})} }

// change changes the questions and has those who follow them look again.
func (s *asks) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

type askKey struct{}

// note opens a question, until done is called. The prompter that shows it finds it
// in the context, see [shownBy].
func (s *asks) note(ctx context.Context, w wire.Wait) (_ context.Context, done func()) {
	if q, ok := ctx.Value(requesterKey{}).(requester); ok {
		w.Client = q.client
	} else if c, ok := bridge.ClientOf(ctx); ok {
		w.Client = c
	}
	a := &ask{Wait: w, of: s}
	s.change(func() { s.open = append(s.open, a) })
	return context.WithValue(ctx, askKey{}, a), func() {
		s.change(func() { s.open = slices.DeleteFunc(s.open, func(o *ask) bool { return o == a }) })
	}
}

// shownBy says who shows the question that is asked with ctx, if it is noted.
func shownBy(ctx context.Context, r *remotePrompter) {
	if a, ok := ctx.Value(askKey{}).(*ask); ok {
		a.of.change(func() { a.by, a.Asker = r, r.who })
	}
}

// waiter is whoever waits.
type waiter interface {
	// waits shows what for, until done is called.
	waits(w wire.Wait) (done func())
	// asker tells whether it is the one who shows the question.
	asker(a *ask) bool
	// process is the program that waits.
	process() process.ID
}

// tell tells w of the questions that are open elsewhere, until over is called.
func (s *asks) tell(w waiter) (over func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var shown *wire.Wait
		done := func() {}
		defer func() { done() }()
		for {
			now, changed := s.elsewhere(w)
			if now == nil || shown == nil || *now != *shown {
				done()
				if shown, done = now, func() {}; now != nil {
					done = w.waits(*now)
				}
			}
			select {
			case <-changed:
			case <-end:
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

// elsewhere returns the latest question that w's person does not see, or nil if
// there is none or one is asked there.
func (s *asks) elsewhere(w waiter) (latest *wire.Wait, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		return nil, s.changed
	}
	who := w.process()
	here := who.Terminal()
	for _, a := range s.open {
		if w.asker(a) || a.Asker == (process.ID{}) && a.Client == who || here != 0 && here == a.Asker.Terminal() {
			return nil, s.changed
		}
		found := a.Wait
		latest = &found
	}
	if !who.Known() { // this system does not tell terminals apart
		return nil, s.changed
	}
	return latest, s.changed
}

// noted is a prompter whose questions are noted.
type noted struct {
	hsm.Prompter
	asks  *asks
	token string // its name, where a question does not tell
	// untold is the holder's.
	untold func() (sentences string, told func())
}

// readTime is how long a touch line is shown for what it says to count as told.
const readTime = 2 * time.Second

// PIN implements [hsm.Prompter].
func (n noted) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	ctx, done := n.asks.note(ctx, wire.Wait{For: wire.ForPIN, Kind: string(p.Kind), Token: p.Token.Name()})
	defer done()
	var told func()
	p.Purpose.Notice, told = n.untold()
	pin, err := n.Prompter.PIN(ctx, p)
	if err == nil {
		told()
	}
	return pin, err
}

// Touch implements [hsm.Prompter].
func (n noted) Touch(ctx context.Context, p hsm.TouchPrompt) (done func()) {
	w := wire.Wait{For: wire.ForTouch, Token: p.Token.Name()}
	if p.Pad != "" {
		w.For, w.Kind = wire.ForPIN, string(p.Pad)
	}
	ctx, over := n.asks.note(ctx, w)
	var told func()
	p.Purpose.Notice, told = n.untold()
	shown := time.Now()
	down := n.Prompter.Touch(ctx, p)
	return sync.OnceFunc(func() {
		over()
		down()
		if time.Since(shown) >= readTime {
			told()
		}
	})
}

// Confirm implements [hsm.Prompter].
func (n noted) Confirm(ctx context.Context, p hsm.ConfirmPrompt) (bool, error) {
	ctx, done := n.asks.note(ctx, wire.Wait{For: wire.ForAnswer, Token: n.token})
	defer done()
	return n.Prompter.Confirm(ctx, p)
}

// noting has p's questions about the token noted; nil stays nil.
func (h *holder) noting(p hsm.Prompter) hsm.Prompter {
	if p == nil {
		return nil
	}
	untold := h.untold
	if untold == nil {
		untold = func() (string, func()) { return "", func() {} }
	}
	return noted{p, h.asks, cmp.Or(h.uri.Token, h.uri.Serial), untold}
}

// asker implements [waiter].
func (r *remotePrompter) asker(a *ask) bool { return a.by == r }

// process implements [waiter].
func (r *remotePrompter) process() process.ID { return r.who }

// waits implements [waiter]: the client shows it, if it understands that.
func (r *remotePrompter) waits(w wire.Wait) (done func()) {
	if !r.understandsWaits {
		return func() {}
	}
	return r.Waits(w)
}

// waitDelay is how long a client of the external signer's socket waits before it
// is told why; others know that themselves.
const waitDelay = time.Second

// toldWaiter is a client that takes words.
type toldWaiter struct {
	client process.ID
	tell   func(text string)
}

// asker implements [waiter]: what is asked for the client itself it hears of from
// [service.Told], whoever is asked.
func (t toldWaiter) asker(a *ask) bool   { return t.client.Known() && a.Client == t.client }
func (t toldWaiter) process() process.ID { return t.client }
func (t toldWaiter) waits(w wire.Wait) (done func()) {
	late := time.AfterFunc(waitDelay, func() {
		t.tell(w.Words(consent.CommandOf(w.Client.PID), func(s string) string { return s }))
	})
	return func() { late.Stop() }
}
