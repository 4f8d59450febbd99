package agent

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

// remotePrompter asks the person at a client, for the length of one operation.
type remotePrompter struct {
	link *link

	mu     sync.Mutex // one question at a time
	stateM sync.Mutex
	last   int
	asked  bool
	closed bool
}

var _ hsm.Prompter = (*remotePrompter)(nil)

// PIN implements [hsm.Prompter].
func (r *remotePrompter) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	_, pin, err := r.ask(ctx, prompt{PIN: &p})
	if err == nil && pin == nil {
		err = fmt.Errorf("%w: no PIN came with the answer", wire.ErrFrame)
	}
	return pin, err
}

// Confirm implements [hsm.Prompter].
func (r *remotePrompter) Confirm(ctx context.Context, p hsm.ConfirmPrompt) (bool, error) {
	a, secret, err := r.ask(ctx, prompt{Confirm: &p})
	secret.Zero()
	return a.Yes, err
}

// Touch implements [hsm.Prompter].
func (r *remotePrompter) Touch(_ context.Context, p hsm.TouchPrompt) (done func()) {
	id, ok := r.next()
	if !ok || r.link.write(reply{Prompt: &prompt{ID: id, Touch: &p}}) != nil {
		return func() {} // nobody is there; the token waits for its touch all the same
	}
	return sync.OnceFunc(func() {
		if !r.isClosed() {
			_ = r.link.write(reply{Done: id}) // a client that is gone shows nothing any more
		}
	})
}

// ask sends a question and waits for its answer.
func (r *remotePrompter) ask(ctx context.Context, q prompt) (answer, *hsm.Secret, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, ok := r.next()
	if !ok {
		return answer{}, nil, hsm.ErrNoTerminal
	}
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()
	q.ID = id
	if err := r.link.write(reply{Prompt: &q}); err != nil {
		return answer{}, nil, gone(err)
	}
	for {
		a, secret, err := r.link.answer(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("nobody answered the prompt: %w", err)
		}
		if err != nil {
			return answer{}, nil, err
		}
		if a.ID != id { // to a question that was given up
			secret.Zero()
			continue
		}
		if a.Error != nil {
			secret.Zero()
			return answer{}, nil, a.Error.err()
		}
		return a, secret, nil
	}
}

func gone(err error) error { return fmt.Errorf("%w: %w", hsm.ErrCancelled, err) }

func (r *remotePrompter) next() (int, bool) {
	r.stateM.Lock()
	defer r.stateM.Unlock()
	if r.closed {
		return 0, false
	}
	r.last++
	r.asked = true
	return r.last, true
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
