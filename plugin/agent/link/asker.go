package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// promptTimeout bounds a prompt: client-go puts no end to its plugin's run.
const promptTimeout = 5 * time.Minute

// Asker asks the person at a client, for the length of one request.
type Asker struct {
	// Shared tells whether other programs may write to the client's terminal now; may
	// be nil.
	Shared func() bool
	// Shows is told of each question and touch that is shown, with what it was asked
	// with; may be nil.
	Shows func(ctx context.Context)

	server *Server
	turn   chan struct{} // held by one question at a time
	mu     sync.Mutex
	last   int
	asked  bool
	closed bool
	shown  int  // prompts
	told   bool // that others may write where the latest of them is
}

var _ hsm.Prompter = (*Asker)(nil)

// NewAsker asks the client of s.
func NewAsker(s *Server) *Asker { return &Asker{server: s, turn: make(chan struct{}, 1)} }

// heldKey says in a prompt's context what [HoldsTerminal] returns.
type heldKey struct{}

// HoldingTerminal returns a context for which [HoldsTerminal] returns held.
func HoldingTerminal(ctx context.Context, held bool) context.Context {
	return context.WithValue(ctx, heldKey{}, held)
}

// HoldsTerminal tells a prompter that the client itself waits for the answer
// with its terminal in raw mode already, and reads nothing from it yet:
// "kubectl exec -it" sets it before it connects.
func HoldsTerminal(ctx context.Context) bool {
	held, _ := ctx.Value(heldKey{}).(bool)
	return held
}

// PIN implements [hsm.Prompter].
func (r *Asker) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	_, pin, err := r.ask(ctx, prompt{PIN: &p})
	if err == nil && pin == nil {
		err = fmt.Errorf("%w: no PIN came with the answer", wire.ErrFrame)
	}
	return pin, err
}

// Confirm implements [hsm.Prompter].
func (r *Asker) Confirm(ctx context.Context, p hsm.ConfirmPrompt) (bool, error) {
	a, secret, err := r.ask(ctx, prompt{Confirm: &p})
	secret.Zero()
	return a.Yes, err
}

// Touch implements [hsm.Prompter].
func (r *Asker) Touch(ctx context.Context, p hsm.TouchPrompt) (done func()) {
	r.shows(ctx)
	id, ok := r.next()
	shared := r.isShared()
	if !ok || r.server.event(event{Prompt: &prompt{ID: id, Touch: &p, Shared: shared}}) != nil {
		return func() {} // nobody is there; the token waits for its touch all the same
	}
	over := r.showing(shared)
	return sync.OnceFunc(func() {
		over()
		r.takeDown(id)
	})
}

// Waits shows why the client waits, until done is called.
func (r *Asker) Waits(w wire.Wait) (done func()) {
	id, ok := r.number()
	if !ok || r.server.event(event{Prompt: &prompt{ID: id, Wait: &w}}) != nil {
		return func() {}
	}
	return func() { r.takeDown(id) }
}

// takeDown ends what is shown; a client that is gone shows nothing any more.
func (r *Asker) takeDown(id int) {
	if !r.isClosed() {
		_ = r.server.event(event{Done: id})
	}
}

// Reach tells whether a touch would be seen at the client; [hsm.ErrUnsupported]
// if that one cannot tell.
func (r *Asker) Reach(ctx context.Context) error {
	_, secret, err := r.ask(ctx, prompt{Reach: true})
	secret.Zero()
	return err
}

// takenDownTimeout bounds the wait for a touch line to be gone.
const takenDownTimeout = 2 * time.Second

// TakenDown waits until what [Asker.Touch] has shown is gone from the
// client's terminal, which its program writes to next. Clients do one thing after
// the other: a question that comes after the end of a touch is answered after it.
func (r *Asker) TakenDown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, takenDownTimeout)
	defer cancel()
	_ = r.Reach(ctx) // whatever the answer is, and if there is none it has had its time
}

// ask sends a question and waits for its answer.
func (r *Asker) ask(ctx context.Context, q prompt) (answer, *hsm.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return answer{}, nil, context.Cause(ctx)
	}
	id, ok := r.next()
	if !ok {
		return answer{}, nil, hsm.ErrNoTerminal
	}
	if !q.Reach {
		r.shows(ctx)
	}
	q.ID = id
	q.Raw, q.Shared = HoldsTerminal(ctx), r.isShared()
	if err := r.server.event(event{Prompt: &q}); err != nil {
		return answer{}, nil, gone(err)
	}
	if !q.Reach {
		defer r.showing(q.Shared)()
	}
	a, secret, err := r.await(ctx, id)
	if err != nil && ctx.Err() != nil && r.server.ctx.Err() == nil {
		r.withdraw(id)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("nobody answered the prompt: %w", err)
	}
	if err == nil && a.Error != nil {
		secret.Zero()
		return answer{}, nil, r.server.codes.Error(a.Error)
	}
	return a, secret, err
}

// await waits for the answer to the question of that id.
func (r *Asker) await(ctx context.Context, id int) (answer, *hsm.Secret, error) {
	for {
		a, secret, err := r.server.answer(ctx)
		if err != nil || a.ID == id {
			return a, secret, err
		}
		secret.Zero() // to a question that was given up
	}
}

// withdrawTimeout bounds the wait for a prompt to be taken down.
const withdrawTimeout = 2 * time.Second

// withdraw has a question taken down that nobody needs answered any more, and
// takes in what comes as its answer.
func (r *Asker) withdraw(id int) {
	if r.server.event(event{Done: id}) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.server.ctx, withdrawTimeout)
	defer cancel()
	_, secret, _ := r.await(ctx, id) // whatever it is, it comes too late
	secret.Zero()
}

// next numbers what the person is asked or shown to do.
func (r *Asker) next() (int, bool) {
	r.mu.Lock()
	r.asked = r.asked || !r.closed
	r.mu.Unlock()
	return r.number()
}

func (r *Asker) number() (int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, false
	}
	r.last++
	return r.last, true
}

func (r *Asker) shows(ctx context.Context) {
	if r.Shows != nil {
		r.Shows(ctx)
	}
}

func (r *Asker) isShared() bool { return r.Shared != nil && r.Shared() }

// showing counts a prompt on the client's terminal until over is called. Who came
// while it was on its way there is told of now unless it knew.
func (r *Asker) showing(shared bool) (over func()) {
	r.mu.Lock()
	r.shown++
	r.told = shared
	r.mu.Unlock()
	if !shared && r.isShared() {
		r.Share()
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.shown--
	}
}

// Share tells the client that others may write to its terminal by now: once for a
// prompt, as a client that was stopped reads nothing. An older one takes it for a
// sign of life.
func (r *Asker) Share() {
	r.mu.Lock()
	told := r.told
	r.told = true
	r.mu.Unlock()
	if told {
		return
	}
	_ = r.server.event(event{Beat: true, Shared: true}) // a client that is gone shows nothing any more
}

// Showing tells whether a prompt is on the client's terminal.
func (r *Asker) Showing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown > 0 && !r.closed
}

func (r *Asker) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// Close ends the asker with its request: a dial that goes on asks nobody.
func (r *Asker) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
}

// HasAsked tells whether the person was asked anything.
func (r *Asker) HasAsked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}
