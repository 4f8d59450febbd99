package token

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// Held keeps one token open while it is used. It is safe for concurrent use.
type Held struct {
	uri       hsm.URI // URI of the token, without a key
	o         Options
	opening   chan struct{} // semaphore of opening
	asking    chan struct{} // semaphore of unlocking: one prompt per token
	questions *Questions

	mu    sync.Mutex
	token worker.Token
	leave context.CancelFunc // ends lookAfter or lookAgain
	busy  int                // operations in progress, but for signatures
	// signing counts signatures in progress.
	signing int
	said    answer      // last answer of the token
	looking atomic.Bool // the token is asked while nobody waits for the answer
	lost    error       // why the token could not be opened again
	// waits says that a signature was given up for which the token may still wait to be touched.
	waits atomic.Bool
	// closing is the end of a handle that is no longer the current one.
	closing *closing
	// since when the token is unlocked, or was when its handle was lost: what it
	// signed is still open.
	since time.Time
	used  time.Time
	// given counts those who wait to unlock the token with a PIN that they have at hand.
	// withdraw takes back another's question for the PIN; it is nil if none is open.
	given    int
	withdraw func()
	// why the token was locked last, and when, if anything stood on it.
	why    string
	locked time.Time
}

// closing is a handle's end, which may take a token that hangs a while.
type closing struct {
	done   chan struct{}
	err    error
	locked bool // a lock was requested: stop watching the token
}

func newHeld(uri hsm.URI, o Options) *Held {
	return &Held{uri: uri, o: o, opening: make(chan struct{}, 1), asking: make(chan struct{}, 1),
		questions: newQuestions()}
}

// URI names the token, and none of its keys.
func (h *Held) URI() hsm.URI { return h.uri }

// Questions are those about the token that wait for an answer.
func (h *Held) Questions() *Questions { return h.questions }

// open returns the token, opened if it is not.
func (h *Held) open(ctx context.Context) (worker.Token, error) {
	select {
	case h.opening <- struct{}{}:
		defer func() { <-h.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if t := h.current(); t != nil {
		return t, nil
	}
	t, err := h.o.Tokens.Open(ctx, h.uri)
	if back := h.uri.Place().Back(); errors.Is(err, hsm.ErrNoToken) {
		// Another hint names another cause, such as a service that is down.
		if own := hint.Of(err); own == "" || strings.HasPrefix(own, back) {
			err = hint.With(err, back)
		}
	}
	if errors.Is(err, hsm.ErrBusy) && h.waits.Load() {
		err = hint.With(err, "the token may still wait for a touch that nobody needs any more: touch it, or unplug it")
	}
	if err != nil {
		return nil, err
	}
	h.waits.Store(false)
	look, leave := context.WithCancel(context.Background())
	h.mu.Lock()
	if h.leave != nil { // cancels the lookAgain that runs
		h.leave()
	}
	h.token, h.leave = t, leave
	h.mu.Unlock()
	go h.lookAfter(look, t)
	return t, nil
}

// lookAfter tells when the token has gone. What cannot tell now, such as a smart
// card service that is started again, is asked again.
func (h *Held) lookAfter(ctx context.Context, t worker.Token) {
	for {
		err := h.o.Tokens.Removed(ctx, t)
		if ctx.Err() != nil || h.current() != t {
			return
		}
		if errors.Is(err, worker.ErrNotSent) { // the worker has ended
			_ = h.drop(t, err)
			return
		}
		if err == nil || errors.Is(err, hsm.ErrDisconnected) {
			h.gone(ctx, t, err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(worker.LookEvery):
		}
	}
}

// gone locks a token that was removed. The handle t noticed the removal, by the error why; t is nil
// if no handle was open. Nobody opens the token meanwhile: a lock must not come after the next unlock.
func (h *Held) gone(ctx context.Context, t worker.Token, why error) {
	select {
	case h.opening <- struct{}{}:
		defer func() { <-h.opening }()
	case <-ctx.Done():
		return
	}
	if ctx.Err() == nil && h.current() == t {
		h.o.Removed(h, errors.Is(why, hsm.ErrDisconnected))
	}
}

// close ends the handle t, or whichever there is if t is nil, by how. Who comes
// meanwhile waits for the end and hears how it went: mine is false for him. It is
// nil if there is none.
func (h *Held) close(t worker.Token, lock bool, how func(worker.Token) error) (c *closing, mine bool) {
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

// drop closes a handle that is no longer good, as why says, if it still is the current one.
// What it signed may be open still, and must not outlast the token: unless it is
// used before, it is opened again soon, to be looked after.
func (h *Held) drop(t worker.Token, why error) error {
	c, mine := h.close(t, false, worker.Token.Close)
	if !mine {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = why
	if h.leave == nil && !c.locked { // nor has it been opened meanwhile
		var look context.Context
		look, h.leave = context.WithCancel(context.Background())
		go h.lookAgain(look, why)
	}
	return c.err
}

// lookLate is how often a token is looked after at the least, where nothing can tell.
const lookLate = time.Minute

// lookAgain opens the token, whose last handle was dropped for why, or tells that it has gone,
// unless ctx ends before.
func (h *Held) lookAgain(ctx context.Context, why error) {
	if errors.Is(why, hsm.ErrDisconnected) { // the login ended with the connection: there is nothing to look after
		h.gone(ctx, nil, why)
		return
	}
	for pause := worker.LookEvery; ; pause = min(2*pause, lookLate) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		_, err := h.open(ctx)
		if ctx.Err() != nil {
			return
		}
		h.mu.Lock()
		h.lost = err
		h.mu.Unlock()
		switch {
		case err == nil:
			return
		case errors.Is(err, hsm.ErrNoToken):
			h.gone(ctx, nil, nil)
			return
		}
	}
}

// with calls f with the token, once more with a new handle if the old one is dead.
func (h *Held) with(ctx context.Context, f func(context.Context, worker.Token) error) error {
	ctx = h.questions.slow(ctx)
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
		err = f(ctx, t)
		if !isDead(err) {
			return err
		}
		if cerr := h.drop(t, err); again || cerr != nil {
			return errors.Join(err, cerr)
		}
	}
}

// isDead tells whether a handle that failed so is no longer good. The token may be there.
func isDead(err error) bool {
	return errors.Is(err, hsm.ErrRemoved) || errors.Is(err, hsm.ErrNoToken) || errors.Is(err, worker.ErrNotSent)
}

// Find looks the key up and compares it with the one on record.
func (h *Held) Find(ctx context.Context, key hsm.URI, want crypto.PublicKey) (hsm.Slot, error) {
	var slot hsm.Slot
	err := h.with(ctx, func(ctx context.Context, t worker.Token) (err error) {
		slot, err = t.Slot(ctx, key)
		return err
	})
	if err != nil {
		return slot, err
	}
	if slot.Key != nil && slot.Key.Public != nil && !hsm.SameKey(slot.Key.Public, want) {
		return slot, fmt.Errorf("%s: %w", key, hsm.ErrKeyMismatch)
	}
	return slot, nil
}

// Unlock asks for the PIN unless the token is unlocked. Whoever comes while somebody is
// asked waits for that, but for one who has the PIN at hand: the question is withdrawn, and put
// again if the token stays locked. tried is called with the end of an attempt.
func (h *Held) Unlock(ctx context.Context, u Use, tried func(error)) error {
	if u.Given {
		h.yield(func() { h.given++ })
		defer h.yield(func() { h.given-- })
	}
	for {
		if err := h.unlock(ctx, u, tried); !errors.Is(err, errWithdrawn) {
			return err
		}
	}
}

// yield makes a change, after which no question is open that somebody need not wait for.
func (h *Held) yield(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if change(); h.given > 0 && h.withdraw != nil {
		h.withdraw()
	}
}

// errWithdrawn says that another has the PIN at hand.
var errWithdrawn = errors.New("the question for the PIN was withdrawn")

func (h *Held) unlock(ctx context.Context, u Use, tried func(error)) error {
	select {
	case h.asking <- struct{}{}:
		defer func() { <-h.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	select { // A removed token is locked first, even if it is back.
	case h.opening <- struct{}{}:
		<-h.opening
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.Unlocked() {
		return nil
	}
	var of worker.Token
	var given, withdrawn atomic.Bool // a PIN may be on its way to the token; another has it at hand
	w := newTouches(ctx)
	err := h.with(ctx, func(ctx context.Context, t worker.Token) error {
		of = t
		return t.Unlock(ctx, noting(h.withdrawable(h.ask(u, w), u, &withdrawn), &given).Prompter())
	})
	if err != nil && withdrawn.Load() && ctx.Err() == nil {
		return errWithdrawn
	}
	if err != nil && ctx.Err() != nil && given.Load() { // the token must not be unlocked for a person who has left
		err = errors.Join(err, h.Lock(""))
	}
	if err == nil {
		h.mu.Lock()
		if h.token == of { // still the same token: not locked meanwhile
			h.since = time.Now()
			h.said = answer{of, true, h.since}
		}
		h.mu.Unlock()
		w.taken()
	}
	tried(err)
	return err
}

// withdrawable returns next, whose questions for the PIN end when another has it at hand.
func (h *Held) withdrawable(next ask.Func, u Use, withdrawn *atomic.Bool) ask.Func {
	if next == nil || u.Given {
		return next
	}
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		if q.PIN != nil {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			defer cancel()
			h.yield(func() { h.withdraw = func() { withdrawn.Store(true); cancel() } })
			defer h.yield(func() { h.withdraw = nil })
		}
		return next(ctx, q)
	}
}

// noting notes that a PIN was given; nil if next asks nobody.
func noting(next ask.Func, given *atomic.Bool) ask.Func {
	if next == nil {
		return nil
	}
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		a, err := next(ctx, q)
		if a.PIN != nil {
			given.Store(true)
		}
		return a, err
	}
}

// current returns the open handle or nil. Tokens are called without h.mu held:
// they may take as long as a touch.
func (h *Held) current() worker.Token {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token
}

// Unlocked tells whether the token is unlocked. A token that cannot tell counts as locked.
func (h *Held) Unlocked() bool {
	t := h.current()
	return t != nil && t.Unlocked()
}

// Signer returns the key for one signature within ctx. Errors: [hsm.ErrTouchTimeout] if ctx
// ended while a touch was awaited.
func (h *Held) Signer(ctx context.Context, u Use, key hsm.URI, want crypto.PublicKey) (crypto.Signer, error) {
	h.Use()
	defer h.Use() // a person may have been asked
	w := newTouches(ctx)
	var s crypto.Signer
	err := h.with(ctx, func(ctx context.Context, t worker.Token) (err error) {
		s, err = t.Signer(ctx, key, want, h.ask(u, w).Prompter())
		return err
	})
	if err != nil {
		return nil, w.explain(err)
	}
	return touchedSigner{s, h, w, u.Ask}, nil
}

// atWork counts a signature until it is done.
func (h *Held) atWork() (done func()) {
	count := func(n int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.signing += n
	}
	count(1)
	return func() { count(-1) }
}

// Use notes that the token is used now.
func (h *Held) Use() {
	h.mu.Lock()
	h.used = time.Now()
	h.mu.Unlock()
}

// Window returns since when the token is unlocked and when it was last used; ok
// is false when it is locked and nothing stands on an earlier unlock.
func (h *Held) Window(now time.Time) (since, used time.Time, ok bool) {
	t := h.current()
	unlocked := t != nil && t.Unlocked()
	h.mu.Lock()
	defer h.mu.Unlock()
	if unlocked && h.token == t && h.since.IsZero() { // the driver asked while it signed
		h.since = now
	}
	return h.since, h.used, !h.since.IsZero()
}

// Idle returns since when the token is open without use; ok is false if it is in use, or
// not open.
func (h *Held) Idle() (since time.Time, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.used, h.token != nil && h.busy == 0
}

// Open tells whether the token is open, or anything stands on an earlier unlock.
func (h *Held) Open() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token != nil || !h.since.IsZero()
}

// Locked returns why the token was locked last, and when; why is "" if it was not, or has
// been unlocked since.
func (h *Held) Locked() (why string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.since.IsZero() {
		return "", time.Time{}
	}
	return h.why, h.locked
}

// Lock forgets the PIN and lets the token go. why is a reason of [message.WhyLocked], or ""
// if nobody needs to know.
func (h *Held) Lock(why string) error {
	h.mu.Lock()
	if why != "" && (h.token != nil || !h.since.IsZero()) {
		h.why, h.locked = why, time.Now()
	}
	h.mu.Unlock()
	c, _ := h.close(nil, true, func(t worker.Token) error { return errors.Join(t.Lock(), t.Close()) })
	if c == nil || errors.Is(c.err, hsm.ErrRemoved) || errors.Is(c.err, hsm.ErrNoToken) {
		return nil // a removed token has no state to lock
	}
	return c.err
}
