package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// promptTimeout bounds a prompt: client-go puts no end to its plugin's run.
const promptTimeout = 5 * time.Minute

// remotePrompter asks the person at a client, for the length of one operation.
type remotePrompter struct {
	link *link
	// elsewhere returns who can be asked where the client has nobody, such as
	// whoever sits before an open terminal UI, or nil; it may be nil itself.
	elsewhere func() hsm.Prompter
	soon      func(context.Context) // waits for whoever is about to be there; set with elsewhere
	terminal  bool                  // the client is known to have a controlling terminal, which shows a touch
	who       process.ID            // is asked on its terminal
	shared    func() bool           // other programs may write there now; may be nil

	understandsWaits bool

	turn   chan struct{} // held by one question at a time
	stateM sync.Mutex
	last   int
	asked  bool
	closed bool
	shown  int  // prompts
	told   bool // that others may write where the latest of them is
}

var _ hsm.Prompter = (*remotePrompter)(nil)

func newRemotePrompter(l *link) *remotePrompter {
	return &remotePrompter{link: l, turn: make(chan struct{}, 1)}
}

// rawKey says in a prompt's context what [HoldsTerminal] returns.
type rawKey struct{}

// HoldsTerminal tells a prompter that the client itself waits for the answer
// with its terminal in raw mode already, and reads nothing from it yet:
// "kubectl exec -it" sets it before it connects.
func HoldsTerminal(ctx context.Context) bool {
	raw, _ := ctx.Value(rawKey{}).(bool)
	return raw
}

// PIN implements [hsm.Prompter].
func (r *remotePrompter) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	_, pin, err := r.ask(ctx, prompt{PIN: &p})
	if other := r.other(ctx, err); other != nil {
		if pin, oerr := other.PIN(ctx, p); !errors.Is(oerr, hsm.ErrNoTerminal) {
			return pin, oerr
		}
	}
	if err == nil && pin == nil {
		err = fmt.Errorf("%w: no PIN came with the answer", wire.ErrFrame)
	}
	return pin, err
}

// Confirm implements [hsm.Prompter].
func (r *remotePrompter) Confirm(ctx context.Context, p hsm.ConfirmPrompt) (bool, error) {
	a, secret, err := r.ask(ctx, prompt{Confirm: &p})
	secret.Zero()
	if other := r.other(ctx, err); other != nil {
		if yes, oerr := other.Confirm(ctx, p); !errors.Is(oerr, hsm.ErrNoTerminal) {
			return yes, oerr
		}
	}
	return a.Yes, err
}

// other returns who is asked instead of a client that has no terminal, if err
// says so: nil if it does not, or nobody is there.
func (r *remotePrompter) other(ctx context.Context, err error) hsm.Prompter {
	if r.elsewhere == nil || !errors.Is(err, hsm.ErrNoTerminal) {
		return nil
	}
	r.soon(ctx)
	return r.elsewhere()
}

// Touch implements [hsm.Prompter].
func (r *remotePrompter) Touch(ctx context.Context, p hsm.TouchPrompt) (done func()) {
	if r.elsewhere != nil && !r.terminal {
		if other := r.elsewhere(); other != nil {
			here := r.touch(ctx, p)
			there := other.Touch(ctx, p)
			return func() { there(); here() }
		}
	}
	return r.touch(ctx, p)
}

// touch shows it at the client.
func (r *remotePrompter) touch(ctx context.Context, p hsm.TouchPrompt) (done func()) {
	shownBy(ctx, r)
	id, ok := r.next()
	shared := r.isShared()
	if !ok || r.link.write(reply{Prompt: &prompt{ID: id, Touch: &p, Shared: shared}}) != nil {
		return func() {} // nobody is there; the token waits for its touch all the same
	}
	over := r.shows(shared)
	return sync.OnceFunc(func() {
		over()
		if !r.isClosed() {
			_ = r.link.write(reply{Done: id}) // a client that is gone shows nothing any more
		}
	})
}

// reacher is a prompter that knows whether what [hsm.Prompter.Touch] shows
// would be seen now; others ask a question first.
type reacher interface {
	// Reach returns nil if it would, else an error that wraps [hsm.ErrNoTerminal].
	Reach(ctx context.Context) error
}

// reach tells whether a touch would be seen at the client; [hsm.ErrUnsupported]
// if that one cannot tell.
func (r *remotePrompter) reach(ctx context.Context) error {
	_, secret, err := r.ask(ctx, prompt{Reach: true})
	secret.Zero()
	return err
}

// takenDownTimeout bounds the wait for a touch line to be gone.
const takenDownTimeout = 2 * time.Second

// takenDown waits until what [remotePrompter.Touch] has shown is gone from the
// client's terminal, which its program writes to next. Clients do one thing after
// the other: a question that comes after the end of a touch is answered after it.
func (r *remotePrompter) takenDown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, takenDownTimeout)
	defer cancel()
	_ = r.reach(ctx) // whatever the answer is, and if there is none it has had its time
}

// ask sends a question and waits for its answer.
func (r *remotePrompter) ask(ctx context.Context, q prompt) (answer, *hsm.Secret, error) {
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
		shownBy(ctx, r)
	}
	q.ID = id
	q.Raw, q.Shared = HoldsTerminal(ctx), r.isShared()
	if err := r.link.write(reply{Prompt: &q}); err != nil {
		return answer{}, nil, gone(err)
	}
	if !q.Reach {
		defer r.shows(q.Shared)()
	}
	a, secret, err := r.await(ctx, id)
	if err != nil && ctx.Err() != nil && r.link.ctx.Err() == nil {
		r.withdraw(id)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("nobody answered the prompt: %w", err)
	}
	if err == nil && a.Error != nil {
		secret.Zero()
		return answer{}, nil, a.Error.err()
	}
	return a, secret, err
}

// await waits for the answer to the question of that id.
func (r *remotePrompter) await(ctx context.Context, id int) (answer, *hsm.Secret, error) {
	for {
		a, secret, err := r.link.answer(ctx)
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
func (r *remotePrompter) withdraw(id int) {
	if r.link.write(reply{Done: id}) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.link.ctx, withdrawTimeout)
	defer cancel()
	_, secret, _ := r.await(ctx, id) // whatever it is, it comes too late
	secret.Zero()
}

func gone(err error) error { return fmt.Errorf("%w: %w", hsm.ErrCancelled, err) }

// next numbers what the person is asked or shown to do.
func (r *remotePrompter) next() (int, bool) {
	r.stateM.Lock()
	r.asked = r.asked || !r.closed
	r.stateM.Unlock()
	return r.number()
}

func (r *remotePrompter) number() (int, bool) {
	r.stateM.Lock()
	defer r.stateM.Unlock()
	if r.closed {
		return 0, false
	}
	r.last++
	return r.last, true
}

func (r *remotePrompter) isShared() bool { return r.shared != nil && r.shared() }

// shows counts a prompt on the client's terminal until over is called. Who came
// while it was on its way there is told of now unless it knew.
func (r *remotePrompter) shows(shared bool) (over func()) {
	r.stateM.Lock()
	r.shown++
	r.told = shared
	r.stateM.Unlock()
	if !shared && r.isShared() {
		r.share()
	}
	return func() {
		r.stateM.Lock()
		defer r.stateM.Unlock()
		r.shown--
	}
}

// share tells the client that others may write to its terminal by now: once for a
// prompt, as a client that was stopped reads nothing. One of before takes it for a
// sign of life.
func (r *remotePrompter) share() {
	r.stateM.Lock()
	told := r.told
	r.told = true
	r.stateM.Unlock()
	if told {
		return
	}
	_ = r.link.write(reply{Beat: true, Shared: true}) // a client that is gone shows nothing any more
}

func (r *remotePrompter) isShowing() bool {
	r.stateM.Lock()
	defer r.stateM.Unlock()
	return r.shown > 0 && !r.closed
}

func (r *remotePrompter) isClosed() bool {
	r.stateM.Lock()
	defer r.stateM.Unlock()
	return r.closed
}

// close ends the prompter with its operation: a dial that goes on asks nobody.
// It reports whether anything was asked.
func (r *remotePrompter) close() {
	r.stateM.Lock()
	r.closed = true
	r.stateM.Unlock()
}

func (r *remotePrompter) hasAsked() bool {
	r.stateM.Lock()
	defer r.stateM.Unlock()
	return r.asked
}

// prompterKey carries a prompter from a prepare to the signature that its dial needs.
type prompterKey struct{}

func withPrompter(ctx context.Context, p hsm.Prompter) context.Context {
	return context.WithValue(ctx, prompterKey{}, p)
}

func prompterOf(ctx context.Context) hsm.Prompter {
	p, _ := ctx.Value(prompterKey{}).(hsm.Prompter)
	return p
}
