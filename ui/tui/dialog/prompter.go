package dialog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
)

// TouchDelay is how long a token may be busy before the touch dialog opens:
// most answer without a touch.
const TouchDelay = 200 * time.Millisecond

// Prompter asks with dialogs. It is safe for concurrent use.
type Prompter struct {
	send       func(tea.Msg)
	keys       keys.Map
	grace      time.Duration
	touchDelay time.Duration
	last       atomic.Uint64
}

// NewPrompter returns a prompter that opens its dialogs by send, which may
// block until the program takes the message.
func NewPrompter(send func(tea.Msg), k keys.Map, grace, touchDelay time.Duration) *Prompter {
	return &Prompter{send: send, keys: k, grace: grace, touchDelay: touchDelay}
}

// NextID returns the id for a dialog that somebody else opens and closes.
func (p *Prompter) NextID() uint64 { return p.last.Add(1) }

// Ask is an [ask.Func].
func (p *Prompter) Ask(ctx context.Context, q ask.Question) (a ask.Answer, err error) {
	switch {
	case q.PIN != nil:
		a.PIN, err = p.pin(ctx, *q.PIN)
	case q.Confirm != nil:
		a.Yes, err = p.confirm(ctx, *q.Confirm)
	case q.Touch != nil:
		a.Done = p.touch(*q.Touch)
	default:
		err = hsm.ErrUnsupported
	}
	return a, err
}

func (p *Prompter) pin(ctx context.Context, q hsm.PINPrompt) (*hsm.Secret, error) {
	q.Kind = hsm.PINKind(text.Clean(string(q.Kind)))
	r := newReply(func(s *hsm.Secret) { s.Zero() })
	return open(ctx, p, r, &PIN{prompt: q, account: p.account(q.Purpose), keys: p.keys,
		guard: guard{grace: p.grace}, reply: r})
}

func (p *Prompter) account(of hsm.Purpose) account {
	return account{notice: of.Notice, fields: of.Fields, keys: p.keys}
}

func (p *Prompter) confirm(ctx context.Context, q hsm.ConfirmPrompt) (bool, error) {
	r := newReply(func(bool) {})
	d := NewConfirm(q, p.keys, nil)
	d.guard, d.reply = guard{grace: p.grace}, r
	return open(ctx, p, r, d)
}

func (p *Prompter) touch(q hsm.TouchPrompt) (done func()) {
	id := p.last.Add(1)
	var mu sync.Mutex
	opened, over := false, false
	t := time.AfterFunc(p.touchDelay, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			opened = true
			p.send(OpenMsg{ID: id, Dialog: &Touch{prompt: q, account: p.account(q.Purpose), keys: p.keys,
				guard: guard{grace: p.grace}}})
		}
	})
	return func() {
		t.Stop()
		mu.Lock()
		defer mu.Unlock()
		if opened && !over {
			p.send(CloseMsg{ID: id})
		}
		over = true
	}
}

func open[T any](ctx context.Context, p *Prompter, r *reply[T], d Dialog) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	id := p.last.Add(1)
	sent := make(chan struct{})
	go func() { // the program may have ended: send gives up then
		defer close(sent)
		p.send(OpenMsg{ID: id, Dialog: d})
	}()
	select {
	case a := <-r.ch:
		if !a.answered {
			return zero, hsm.ErrCancelled
		}
		return a.value, nil
	case <-ctx.Done():
		r.abandon()
		go func() {
			<-sent
			p.send(CloseMsg{ID: id})
		}()
		return zero, ctx.Err()
	}
}

type reply[T any] struct {
	mu   sync.Mutex
	done bool
	ch   chan outcome[T]
	drop func(T) // for an answer that nobody waits for any more
}

type outcome[T any] struct {
	value    T
	answered bool
}

func newReply[T any](drop func(T)) *reply[T] {
	return &reply[T]{ch: make(chan outcome[T], 1), drop: drop}
}

func (r *reply[T]) give(v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		r.drop(v)
		return
	}
	r.done = true
	r.ch <- outcome[T]{value: v, answered: true}
}

func (r *reply[T]) cancel() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done {
		r.done = true
		r.ch <- outcome[T]{}
	}
}

// abandon ends the wait of the goroutine that asked.
func (r *reply[T]) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = true
	select {
	case a := <-r.ch:
		if a.answered {
			r.drop(a.value)
		}
	default:
	}
}
