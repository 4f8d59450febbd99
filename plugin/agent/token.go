package agent

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// holder keeps one token open while it is used.
type holder struct {
	uri     hsm.URI // of the token alone
	drivers hsm.Drivers
	tried   func(context.Context, error) // is told how each attempt to unlock ended; may be nil
	asking  chan struct{}                // held while it is unlocked: one prompt per token

	mu    sync.Mutex
	token hsm.Token
	since time.Time // unlocked since
	used  time.Time
}

func newHolder(uri hsm.URI, drivers hsm.Drivers) *holder {
	return &holder{uri: uri, drivers: drivers, asking: make(chan struct{}, 1)}
}

// open returns the token, opened if it is not.
func (h *holder) open(ctx context.Context) (hsm.Token, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.token == nil {
		t, err := h.drivers.Open(ctx, h.uri)
		if errors.Is(err, hsm.ErrNoToken) { // some libraries see only what was there when they were loaded
			err = hsm.WithHint(err, "plug it in; if `kubehsm token list` shows it, run `kubehsm agent stop`, so that the agent looks afresh")
		}
		if err != nil {
			return nil, err
		}
		h.token = t
	}
	return h.token, nil
}

// drop closes a handle that is no longer good, if it still is the current one.
func (h *holder) drop(t hsm.Token) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.token != t || t == nil {
		return nil
	}
	h.token, h.since = nil, time.Time{}
	return t.Close()
}

// with calls f with the token, once more with a new handle if the old one is dead.
func (h *holder) with(ctx context.Context, f func(hsm.Token) error) error {
	for again := false; ; again = true {
		t, err := h.open(ctx)
		if err != nil {
			return err
		}
		err = f(t)
		if !errors.Is(err, hsm.ErrRemoved) && !errors.Is(err, hsm.ErrNoToken) {
			return err
		}
		if cerr := h.drop(t); again || cerr != nil {
			return errors.Join(err, cerr)
		}
	}
}

// find looks the key up and compares it with the one on record.
func (h *holder) find(ctx context.Context, key hsm.URI, want crypto.PublicKey) (hsm.Slot, error) {
	var slot hsm.Slot
	err := h.with(ctx, func(t hsm.Token) (err error) {
		slot, err = t.Slot(ctx, key)
		return err
	})
	if err != nil {
		return slot, err
	}
	if slot.Key != nil && slot.Key.Public != nil && !hsm.SameKey(slot.Key.Public, want) {
		return slot, hsm.WithHint(fmt.Errorf("%s: %w", key, hsm.ErrKeyMismatch), "the key was replaced; enrol the new one with `kubehsm enroll`")
	}
	return slot, nil
}

// unlock asks for the PIN unless the token is unlocked. Whoever comes while
// somebody is asked waits for that.
func (h *holder) unlock(ctx context.Context, p hsm.Prompter) error {
	select {
	case h.asking <- struct{}{}:
		defer func() { <-h.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.unlocked() {
		return nil
	}
	err := h.with(ctx, func(t hsm.Token) error { return t.Unlock(ctx, p) })
	if err == nil {
		h.mu.Lock()
		h.since = time.Now()
		h.mu.Unlock()
	}
	if h.tried != nil {
		h.tried(ctx, err)
	}
	return err
}

// current returns the open handle or nil. Drivers are called without h.mu held:
// they may take as long as a touch.
func (h *holder) current() hsm.Token {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token
}

func (h *holder) unlocked() bool {
	t := h.current()
	return t != nil && t.Unlocked()
}

// signer returns the key for one signature.
func (h *holder) signer(ctx context.Context, key hsm.URI, want crypto.PublicKey, p hsm.Prompter) (crypto.Signer, error) {
	h.use()
	var s crypto.Signer
	err := h.with(ctx, func(t hsm.Token) (err error) {
		s, err = t.Signer(ctx, key, want, p)
		return err
	})
	return s, err
}

func (h *holder) use() {
	h.mu.Lock()
	h.used = time.Now()
	h.mu.Unlock()
}

// window returns since when the token is unlocked and when it was last used; ok
// is false when it is locked.
func (h *holder) window(now time.Time) (since, used time.Time, ok bool) {
	unlocked := h.unlocked()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !unlocked {
		h.since = time.Time{}
		return since, used, false
	}
	if h.since.IsZero() { // the driver asked while it signed
		h.since = now
	}
	return h.since, h.used, true
}

// lock forgets the PIN and lets the token go.
func (h *holder) lock() error {
	h.mu.Lock()
	t := h.token
	h.token, h.since = nil, time.Time{}
	h.mu.Unlock()
	if t == nil {
		return nil
	}
	err := errors.Join(t.Lock(), t.Close())
	if errors.Is(err, hsm.ErrRemoved) || errors.Is(err, hsm.ErrNoToken) {
		return nil // it took its state along
	}
	return err
}
