package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// Asker asks the person at a client, for the length of one request.
type Asker struct {
	// Client is the program on whose terminal the person is asked, if that is known.
	Client process.ID
	// Waits says that the client understands why it waits, see [Header].
	Waits bool
	// Libraries says that it understands that a library is slow, too.
	Libraries bool
	// Shared tells whether other programs may write to the client's terminal now; may
	// be nil.
	Shared func() bool
	// Else is asked where nobody is at the client, and shows a touch too. It returns
	// [hsm.ErrNoTerminal] if there is nobody to ask, or nothing to show. It may be nil.
	Else ask.Func

	server *Server
	turn   chan struct{} // semaphore of one question at a time
	mu     sync.Mutex
	last   int
	asked  bool
	closed bool
	shown  int  // prompts
	told   bool // the client knows that others may write where its latest prompt is
}

// NewAsker asks the client of s.
func NewAsker(s *Server) *Asker { return &Asker{server: s, turn: make(chan struct{}, 1)} }

// Process implements [ask.Responder].
func (r *Asker) Process() process.ID { return r.Client }

// Ask is an [ask.Func]. Reach is [hsm.ErrUnsupported] if the client cannot tell whether a
// touch would be seen.
func (r *Asker) Ask(ctx context.Context, q ask.Question) (ask.Answer, error) {
	if q.Touch != nil {
		return ask.Answer{Done: r.touches(ctx, q)}, nil
	}
	a, err := r.question(ctx, q)
	if r.Else == nil || q.Reach || !errors.Is(err, hsm.ErrNoTerminal) {
		return a, err
	}
	if other, oerr := r.Else(ctx, q); !errors.Is(oerr, hsm.ErrNoTerminal) {
		return other, oerr
	}
	return a, err
}

// question asks the client.
func (r *Asker) question(ctx context.Context, q ask.Question) (ask.Answer, error) {
	a, secret, err := r.put(ctx, q)
	switch {
	case q.PIN == nil:
		secret.Zero()
		return ask.Answer{Yes: a.Yes}, err
	case err == nil && secret == nil:
		err = fmt.Errorf("%w: no PIN came with the answer", wire.ErrFrame)
	}
	return ask.Answer{PIN: secret, Given: a.Given}, err
}

// touches shows a touch at the client, and where else it is to be shown, until done is
// called.
func (r *Asker) touches(ctx context.Context, q ask.Question) (done func()) {
	here := r.touch(q)
	if r.Else == nil {
		return here
	}
	there, err := r.Else(ctx, q)
	if err != nil { // the question is not shown there
		return here
	}
	return func() { there.Down(); here() }
}

// touch shows a touch at the client until done is called.
func (r *Asker) touch(q ask.Question) (done func()) {
	q.ShownBy(r)
	id, ok := r.next()
	shared := r.isShared()
	if !ok || r.server.event(event{Prompt: &prompt{ID: id, Touch: q.Touch, Shared: shared}}) != nil {
		return func() {} // the token waits for its touch although nobody is there
	}
	over := r.showing(shared)
	return sync.OnceFunc(func() {
		over()
		r.takeDown(id)
	})
}

// ShowWait implements [ask.Waiter], at a client that understands it.
func (r *Asker) ShowWait(w ask.Wait) (done func()) {
	if !r.Waits || w.For == ask.ForLibrary && !r.Libraries {
		return func() {}
	}
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

// put sends a question and waits for its answer.
func (r *Asker) put(ctx context.Context, of ask.Question) (answer, *hsm.Secret, error) {
	if !of.Reach {
		of.ShownBy(r)
	}
	return r.send(ctx, prompt{PIN: of.PIN, Confirm: of.Confirm, Reach: of.Reach, Raw: of.Raw})
}

// send sends a prompt and waits for its answer.
func (r *Asker) send(ctx context.Context, q prompt) (answer, *hsm.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, ask.Limit)
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
	q.ID, q.Shared = id, r.isShared()
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
		secret.Zero() // the answer to a question that was given up
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
	_, secret, _ := r.await(ctx, id) // an answer comes too late
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
