package host

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// heldToken keeps one token open while it is used.
type heldToken struct {
	uri     hsm.URI // of the token alone
	tokens  worker.Tokens
	tried   func(auditing.Requester, error) // called with the end of each attempt to unlock; may be nil
	removed func()                          // called when the token has gone; may be nil
	// notice is what a person is to be told at a prompt, and is told when it was said;
	// may be nil.
	notice    func() (sentences string, told func())
	opening   chan struct{} // semaphore of opening
	asking    chan struct{} // semaphore of unlocking: one prompt per token
	questions *openQuestions

	mu    sync.Mutex
	token worker.Token
	leave context.CancelFunc // ends lookAfter or lookAgain
	busy  int                // operations in progress, but for signatures
	// closing is the end of a handle that is no longer the current one.
	closing *closing
	// since when the token is unlocked, or was when its handle was lost: what it
	// signed is still open.
	since time.Time
	used  time.Time
}

// closing is a handle's end, which may take a token that hangs a while.
type closing struct {
	done   chan struct{}
	err    error
	locked bool // somebody wants it locked: nothing of it is to be looked after
}

func newHeldToken(uri hsm.URI, tokens worker.Tokens) *heldToken {
	return &heldToken{uri: uri, tokens: tokens, opening: make(chan struct{}, 1), asking: make(chan struct{}, 1), questions: newOpenQuestions()}
}

// open returns the token, opened if it is not.
func (h *heldToken) open(ctx context.Context) (worker.Token, error) {
	select {
	case h.opening <- struct{}{}:
		defer func() { <-h.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if t := h.current(); t != nil {
		return t, nil
	}
	t, err := h.tokens.Open(ctx, h.uri)
	if errors.Is(err, hsm.ErrNoToken) {
		err = hint.With(err, "plug it in")
	}
	if err != nil {
		return nil, err
	}
	look, leave := context.WithCancel(context.Background())
	h.mu.Lock()
	if h.leave != nil { // of lookAgain
		h.leave()
	}
	h.token, h.leave = t, leave
	h.mu.Unlock()
	go h.lookAfter(look, t)
	return t, nil
}

// lookAfter tells when the token has gone. What cannot tell now, such as a smart
// card service that is started again, is asked again.
func (h *heldToken) lookAfter(ctx context.Context, t worker.Token) {
	for {
		err := h.tokens.Removed(ctx, t)
		if ctx.Err() != nil || h.current() != t {
			return
		}
		if errors.Is(err, worker.ErrNotSent) { // the worker has ended
			_ = h.drop(t)
			return
		}
		if err == nil {
			if h.removed != nil {
				h.removed()
			}
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(worker.LookEvery):
		}
	}
}

// close ends the handle t, or whichever there is if t is nil, by how. Who comes
// meanwhile waits for the end and hears how it went: mine is false for him. It is
// nil if there is none.
func (h *heldToken) close(t worker.Token, lock bool, how func(worker.Token) error) (c *closing, mine bool) {
	h.mu.Lock()
	if lock {
		h.since = time.Time{}
	}
	if h.leave != nil && (lock || h.token == t) {
		h.leave()
		h.leave = nil
	}
	if h.token == nil || t != nil && h.token != t {
		c := h.closing
		if c != nil && lock {
			c.locked = true
		}
		h.mu.Unlock()
		if c != nil {
			<-c.done
		}
		return c, false
	}
	t, h.token = h.token, nil
	c = &closing{done: make(chan struct{}), locked: lock}
	h.closing = c
	h.mu.Unlock()
	c.err = how(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing == c {
		h.closing = nil
	}
	close(c.done)
	return c, true
}

// drop closes a handle that is no longer good, if it still is the current one.
// What it signed may be open still, and must not outlast the token: unless it is
// used before, it is opened again soon, to be looked after.
func (h *heldToken) drop(t worker.Token) error {
	c, mine := h.close(t, false, worker.Token.Close)
	if !mine {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leave == nil && !c.locked { // nor has it been opened meanwhile
		var look context.Context
		look, h.leave = context.WithCancel(context.Background())
		go h.lookAgain(look)
	}
	return c.err
}

// lookLate is how often a token is looked after at the least, where nothing can tell.
const lookLate = time.Minute

// lookAgain opens the token, or tells that it has gone, unless ctx ends before.
func (h *heldToken) lookAgain(ctx context.Context) {
	for pause := worker.LookEvery; ; pause = min(2*pause, lookLate) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		_, err := h.open(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return
		case errors.Is(err, hsm.ErrNoToken):
			if h.removed != nil {
				h.removed()
			}
			return
		}
	}
}

// with calls f with the token, once more with a new handle if the old one is dead.
func (h *heldToken) with(ctx context.Context, f func(worker.Token) error) error {
	h.mu.Lock()
	h.busy++
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.busy--
	}()
	for again := false; ; again = true {
		t, err := h.open(ctx)
		if err != nil {
			return err
		}
		err = f(t)
		if !errors.Is(err, hsm.ErrRemoved) && !errors.Is(err, hsm.ErrNoToken) && !errors.Is(err, worker.ErrNotSent) {
			return err
		}
		if cerr := h.drop(t); again || cerr != nil {
			return errors.Join(err, cerr)
		}
	}
}

// find looks the key up and compares it with the one on record.
func (h *heldToken) find(ctx context.Context, key hsm.URI, want crypto.PublicKey) (hsm.Slot, error) {
	var slot hsm.Slot
	err := h.with(ctx, func(t worker.Token) (err error) {
		slot, err = t.Slot(ctx, key)
		return err
	})
	if err != nil {
		return slot, err
	}
	if slot.Key != nil && slot.Key.Public != nil && !hsm.SameKey(slot.Key.Public, want) {
		return slot, hint.With(fmt.Errorf("%s: %w", key, hsm.ErrKeyMismatch), "the key was replaced; enroll the new one with `kubehsm enroll`")
	}
	return slot, nil
}

// unlock asks p for the PIN, for q, unless the token is unlocked. Whoever comes while
// somebody is asked waits for that.
func (h *heldToken) unlock(ctx context.Context, q auditing.Requester, p ask.Func) error {
	select {
	case h.asking <- struct{}{}:
		defer func() { <-h.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.unlocked() {
		return nil
	}
	var of worker.Token
	err := h.with(ctx, func(t worker.Token) error {
		of = t
		return t.Unlock(ctx, h.noting(q.Client, p).Prompter())
	})
	if err == nil {
		h.mu.Lock()
		if h.token == of { // it has not been locked meanwhile
			h.since = time.Now()
		}
		h.mu.Unlock()
	}
	if h.tried != nil {
		h.tried(q, err)
	}
	return err
}

// current returns the open handle or nil. Tokens are called without h.mu held:
// they may take as long as a touch.
func (h *heldToken) current() worker.Token {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token
}

func (h *heldToken) unlocked() bool {
	t := h.current()
	return t != nil && t.Unlocked()
}

// signer returns the key for one signature, for which client's person is asked by p.
func (h *heldToken) signer(ctx context.Context, client process.ID, key hsm.URI, want crypto.PublicKey, p ask.Func) (crypto.Signer, error) {
	h.use()
	defer h.use() // a person may have been asked
	w := &touchWatch{next: p, ctx: ctx}
	var s crypto.Signer
	err := h.with(ctx, func(t worker.Token) (err error) {
		s, err = t.Signer(ctx, key, want, h.noting(client, w.ask).Prompter())
		return err
	})
	if err != nil {
		return nil, w.explain(err)
	}
	return touchedSigner{s, w}, nil
}

func (h *heldToken) use() {
	h.mu.Lock()
	h.used = time.Now()
	h.mu.Unlock()
}

// window returns since when the token is unlocked and when it was last used; ok
// is false when it is locked and nothing stands on an earlier unlock.
func (h *heldToken) window(now time.Time) (since, used time.Time, ok bool) {
	t := h.current()
	unlocked := t != nil && t.Unlocked()
	h.mu.Lock()
	defer h.mu.Unlock()
	if unlocked && h.token == t && h.since.IsZero() { // the driver asked while it signed
		h.since = now
	}
	return h.since, h.used, !h.since.IsZero()
}

// unneededFor is how long a token stays open that nothing stands on: after a PIN
// prompt that was cancelled, say.
const unneededFor = 2 * time.Minute

// unneeded tells whether the token is open for nothing.
func (h *heldToken) unneeded(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token != nil && h.busy == 0 && elapsed(h.used, now) >= unneededFor
}

// lock forgets the PIN and lets the token go.
func (h *heldToken) lock() error {
	c, _ := h.close(nil, true, func(t worker.Token) error { return errors.Join(t.Lock(), t.Close()) })
	if c == nil || errors.Is(c.err, hsm.ErrRemoved) || errors.Is(c.err, hsm.ErrNoToken) {
		return nil // it took its state along
	}
	return c.err
}
