package link

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// maxPIN bounds a PIN in bytes; the longest that tokens take are far shorter.
const maxPIN = 1 << 10

// maxShown bounds the prompts that are shown at a time: what says why the client waits, a
// touch and a question are three.
const maxShown = 16

// shownPrompt is a prompt that is shown.
type shownPrompt struct {
	down   func()       // takes it down
	shared *atomic.Bool // value of [ask.Question.Shared]
}

// prompts serves the server's prompts at the client, each in a goroutine of its
// own: the connection must be read on, to notice that the server gave up.
type prompts struct {
	ctx    context.Context
	cancel context.CancelFunc
	client *Client
	o      Options
	clock  *clock
	wg     sync.WaitGroup

	mu    sync.Mutex
	shown map[int]shownPrompt
	waits map[int]bool // prompts that say why the client waits
}

func newPrompts(ctx context.Context, c *Client, o Options, clock *clock) *prompts {
	ctx, cancel := context.WithCancel(ctx)
	if o.Prompter == nil {
		o.Prompter = nobody
	}
	return &prompts{ctx: ctx, cancel: cancel, client: c, o: o, clock: clock,
		shown: map[int]shownPrompt{}, waits: map[int]bool{}}
}

// nobody is the prompter of a client that nobody sits at.
func nobody(_ context.Context, q ask.Question) (ask.Answer, error) {
	if q.Reach {
		return ask.Answer{}, hsm.ErrUnsupported
	}
	return ask.Answer{}, hsm.ErrNoTerminal
}

// show starts a prompt. It must be of one kind only, and its id no other's that is shown:
// what it replaces could not be taken down again. Errors wrap [wire.ErrFrame].
func (s *prompts) show(p prompt) error {
	s.mu.Lock()
	_, twice := s.shown[p.ID]
	n := len(s.shown)
	s.mu.Unlock()
	kinds := 0
	for _, is := range []bool{p.PIN != nil, p.Confirm != nil, p.Touch != nil, p.Wait != nil, p.Reach} {
		if is {
			kinds++
		}
	}
	if twice || n >= maxShown || kinds > 1 {
		return fmt.Errorf("%w: prompt %d, with %d shown", wire.ErrFrame, p.ID, n)
	}
	shared := new(atomic.Bool)
	shared.Store(p.Shared)
	ctx, cancel := context.WithCancelCause(s.ctx)
	down := func() { cancel(ask.ErrGone) } // not by the person
	q := ask.Question{PIN: p.PIN, Confirm: p.Confirm, Touch: p.Touch, Reach: p.Reach, Raw: p.Raw, Shared: shared.Load}
	if !p.Reach {
		s.quiet() // the next prompt is shown in its place
	}
	if p.Wait != nil && s.o.Waiting != nil {
		done := s.o.Waiting(*p.Wait)
		down = func() { done(); cancel(nil) }
	}
	if p.Touch != nil {
		if a, err := s.o.Prompter(ctx, q); err == nil { // a failed touch shows nothing
			down = func() { a.Down(); cancel(nil) }
		}
	}
	s.mu.Lock()
	s.shown[p.ID] = shownPrompt{down, shared}
	if p.Wait != nil {
		s.waits[p.ID] = true
	}
	s.mu.Unlock()
	resume := func() {}
	if p.PIN != nil || p.Confirm != nil {
		resume = s.clock.hold()
	}
	if p.PIN != nil || p.Confirm != nil || p.Reach {
		s.wg.Go(func() {
			defer resume()
			defer s.done(p.ID)
			s.answer(ctx, p.ID, q)
		})
	}
	return nil
}

// answer asks the question and sends its answer.
func (s *prompts) answer(ctx context.Context, id int, q ask.Question) {
	a, err := s.o.Prompter(ctx, q)
	defer a.PIN.Zero()
	if err == nil && a.PIN.Len() > maxPIN {
		err = hsm.ErrPINInvalid
	}
	switch {
	case err != nil:
		err = s.client.write(answer{ID: id, Error: s.client.codes.Failure(err)})
	case q.PIN != nil:
		err = s.client.answerPIN(answer{ID: id, Secret: true, Given: a.Given}, a.PIN)
	default:
		err = s.client.write(answer{ID: id, Yes: a.Yes || q.Reach})
	}
	if err != nil {
		s.cancel() // the reader sees the same broken connection and reports it
	}
}

// done takes the prompt of that id down.
func (s *prompts) done(id int) {
	s.mu.Lock()
	f := s.shown[id].down
	delete(s.shown, id)
	delete(s.waits, id)
	s.mu.Unlock()
	if f != nil {
		f()
	}
}

// share notes that others may write where the prompts are shown.
func (s *prompts) share() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.shown {
		p.shared.Store(true)
	}
}

// quiet ends what says why the client waits.
func (s *prompts) quiet() {
	s.mu.Lock()
	waits := slices.Collect(maps.Keys(s.waits))
	s.mu.Unlock()
	for _, id := range waits {
		s.done(id)
	}
}

// close ends whatever is still shown and waits for it to be gone.
func (s *prompts) close() {
	s.cancel()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.shown {
		p.down()
		delete(s.shown, id)
	}
}
