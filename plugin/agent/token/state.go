package token

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// State is how a token was found.
type State struct {
	// Unlocked says that the token has answered, and that the PIN holds.
	Unlocked bool
	// Since is when it was unlocked and Used when it last signed, if something that it
	// signed may be open: Open.
	Since, Used time.Time
	Open        bool
	// Problem is why it could not be asked; nil if it is not held, or has answered.
	Problem error
}

// ErrSilent says that a token does not answer.
var ErrSilent = errors.New("it does not answer")

// How long a token has for its answer, and how long a good answer is good for: an open UI
// asks each second, and a card that is asked is nobody else's meanwhile.
const (
	stateTimeout = time.Second
	stateFor     = 2 * time.Second
)

// answer is what a handle has said of its token.
type answer struct {
	of       worker.Token
	unlocked bool
	at       time.Time
}

// State asks the token, if it is held, whether it is there and unlocked. A token that is
// at work is taken for what it was: it does not answer before it is done. With recent no
// answer is awaited: one that has answered before is taken for what it said last, and asked
// meanwhile, as a card may take longer than a shell's prompt may.
func (h *Held) State(recent bool) State {
	t := h.current()
	unlocked, err := false, error(nil)
	if t != nil {
		unlocked, err = h.asked(t, recent)
	}
	if isDead(err) {
		// Where the token is put back at once, the next unlock must not take this handle for
		// unlocked, to be locked a moment later.
		err = errors.Join(err, h.drop(t, err))
	}
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.token != t { // The token was locked, lost or opened meanwhile.
		unlocked, err = false, nil
	}
	if err == nil && h.token == nil && !h.since.IsZero() {
		err = h.lost
	}
	if unlocked && h.since.IsZero() { // the driver asked while it signed
		h.since = now
	}
	return State{Unlocked: unlocked, Since: h.since, Used: h.used, Open: !h.since.IsZero(), Problem: err}
}

// asked asks the handle t, or recalls what it said a moment ago, or with recent ever.
func (h *Held) asked(t worker.Token, recent bool) (unlocked bool, err error) {
	h.mu.Lock()
	last, at := h.said, h.busy+h.signing > 0
	h.mu.Unlock()
	if last.of == t && (at || time.Since(last.at) < stateFor) {
		return last.unlocked, nil
	}
	if recent && last.of == t {
		if h.looking.CompareAndSwap(false, true) {
			go func() {
				defer h.looking.Store(false)
				h.State(false)
			}()
		}
		return last.unlocked, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	answered := make(chan answer, 1)
	failed := make(chan error, 1)
	go func() {
		if _, err := t.Info(ctx); err != nil {
			failed <- err
			return
		}
		answered <- answer{t, t.Unlocked(), time.Now()}
	}()
	select {
	case a := <-answered:
		h.mu.Lock()
		h.said = a
		h.mu.Unlock()
		return a.unlocked, nil
	case err := <-failed:
		if ctx.Err() == nil {
			return false, err
		}
	case <-ctx.Done():
	}
	return false, fmt.Errorf("%w for %s", ErrSilent, span.Limit(stateTimeout))
}
