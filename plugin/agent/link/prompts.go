package link

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kubehsm/kubehsm/hsm"
)

// maxPIN bounds a PIN in bytes; the longest that tokens take are far shorter.
const maxPIN = 1 << 10

// shownPrompt is a prompt that is shown.
type shownPrompt struct {
	down   func()       // takes it down
	shared *atomic.Bool // see [hsm.WithShared]
}

// prompts serves the server's prompts at the client, each in a goroutine of its
// own: the connection must be read on, to notice that the server gave up.
type prompts struct {
	ctx    context.Context
	cancel context.CancelFunc
	client *Client
	o      Options
	wg     sync.WaitGroup

	mu    sync.Mutex
	shown map[int]shownPrompt
	waits map[int]bool // those of them that say why the client waits
}

func newPrompts(ctx context.Context, c *Client, o Options) *prompts {
	ctx, cancel := context.WithCancel(ctx)
	return &prompts{ctx: ctx, cancel: cancel, client: c, o: o, shown: map[int]shownPrompt{}, waits: map[int]bool{}}
}

// show starts a prompt.
func (s *prompts) show(p prompt) {
	shared := new(atomic.Bool)
	shared.Store(p.Shared)
	ctx := hsm.WithShared(HoldingTerminal(s.ctx, p.Raw), shared.Load)
	ctx, cancel := context.WithCancel(ctx)
	down := cancel
	if !p.Reach {
		s.quiet() // what comes now is shown in its place
	}
	if p.Wait != nil && s.o.Waiting != nil {
		done := s.o.Waiting(*p.Wait)
		down = func() { done(); cancel() }
	}
	if p.Touch != nil && s.o.Prompter != nil {
		done := s.o.Prompter.Touch(ctx, *p.Touch)
		down = func() { done(); cancel() }
	}
	s.mu.Lock()
	s.shown[p.ID] = shownPrompt{down, shared}
	if p.Wait != nil {
		s.waits[p.ID] = true
	}
	s.mu.Unlock()
	answer := func(f func()) {
		s.wg.Go(func() {
			defer s.done(p.ID)
			f()
		})
	}
	switch {
	case p.PIN != nil:
		answer(func() { s.pin(ctx, p.ID, *p.PIN) })
	case p.Confirm != nil:
		answer(func() { s.confirm(ctx, p.ID, *p.Confirm) })
	case p.Reach:
		answer(func() { s.reach(ctx, p.ID) })
	}
}

// reacher is a prompter that knows whether what [hsm.Prompter.Touch] shows
// would be seen now; others ask a question first.
type reacher interface {
	// Reach returns nil if it would, else an error that wraps [hsm.ErrNoTerminal].
	Reach(ctx context.Context) error
}

// reach answers whether a touch would be seen now.
func (s *prompts) reach(ctx context.Context, id int) {
	err := hsm.ErrUnsupported
	if p, ok := s.o.Prompter.(reacher); ok {
		err = p.Reach(ctx)
	}
	if err != nil {
		s.answer(answer{ID: id, Error: s.client.codes.Failure(err)})
		return
	}
	s.answer(answer{ID: id, Yes: true})
}

func (s *prompts) pin(ctx context.Context, id int, p hsm.PINPrompt) {
	if s.o.Prompter == nil {
		s.answer(answer{ID: id, Error: s.client.codes.Failure(hsm.ErrNoTerminal)})
		return
	}
	pin, err := s.o.Prompter.PIN(ctx, p)
	defer pin.Zero()
	if err == nil && pin.Len() > maxPIN {
		err = hsm.ErrPINInvalid
	}
	if err != nil {
		s.answer(answer{ID: id, Error: s.client.codes.Failure(err)})
		return
	}
	if s.client.answerPIN(answer{ID: id, Secret: true}, pin) != nil {
		s.cancel() // the reader sees the same broken connection and reports it
	}
}

func (s *prompts) confirm(ctx context.Context, id int, p hsm.ConfirmPrompt) {
	if s.o.Prompter == nil {
		s.answer(answer{ID: id, Error: s.client.codes.Failure(hsm.ErrNoTerminal)})
		return
	}
	yes, err := s.o.Prompter.Confirm(ctx, p)
	if err != nil {
		s.answer(answer{ID: id, Error: s.client.codes.Failure(err)})
		return
	}
	s.answer(answer{ID: id, Yes: yes})
}

func (s *prompts) answer(a answer) {
	if s.client.write(a) != nil {
		s.cancel() // as above
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
