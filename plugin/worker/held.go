//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// heldToken is a token that has a worker for itself, which may be ended to lock it.
type heldToken struct {
	*workerToken
	peer   *peer
	died   func()         // called when the process dies unexpectedly
	ended  func(pin bool) // called then, and when it is killed to lock the token
	settle func()         // locks the token through another worker
	told   sync.Once
}

// hold opens the token that u names in a process of its own.
func (ws *workers) hold(ctx context.Context, p *workerProcess, u hsm.URI) (*heldToken, error) {
	t := &heldToken{died: func() { ws.note(u) }, settle: func() { ws.settle(u) }}
	t.ended = func(pin bool) { ws.tell(End{Token: u, Killed: p.forced.Load(), PIN: pin}) }
	w := &peer{process: p, library: libraryOf(u), path: u.ModulePath, o: ws.o, over: t.over}
	t.peer = w
	open, info, err := w.open(ctx, u)
	if err != nil {
		return nil, err
	}
	t.workerToken = open
	if info.Module != nil {
		w.library, w.path = "library "+info.Module.Path, info.Module.Path
	}
	return t, nil
}

// over counts the death, once.
func (t *heldToken) over(err error) error {
	if t.workerToken == nil || !t.peer.process.dismissed() {
		t.told.Do(func() {
			t.died()
			t.ended(t.peer.pins.Load() > 0)
		})
	}
	return err
}

// Lock implements [Token].
func (t *heldToken) Lock() error {
	done := make(chan error, 1)
	go func() { done <- t.workerToken.Lock() }()
	tick := time.NewTicker(liveTimeout)
	defer tick.Stop()
	for t.peer.answers() {
		select {
		case err := <-done:
			return locked(t, err)
		case <-tick.C:
		}
	}
	pin := t.peer.pins.Load() > 0
	t.peer.process.kill()
	t.told.Do(func() { t.ended(pin) })
	t.settle()
	return ErrEnded
}

// locked is the outcome of a lock that the worker was asked for.
func locked(t *heldToken, err error) error {
	if errors.Is(err, ErrNotSent) || errors.Is(err, t.peer.o.Dismissed) {
		return nil // the login ended with the process
	}
	if errors.Is(err, hsm.ErrModule) && t.peer.process.gone() {
		t.settle()
		if !t.info.Kind().LoginStays { // the login ended with the process
			return ErrEnded
		}
		return hint.With(err, untoldHint)
	}
	return err
}

// answers tells whether the worker responds, or has ended.
func (w *peer) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*liveTimeout)
	defer cancel()
	_, err := w.call(ctx, "token-alive", arguments{}, call{})
	if errors.Is(err, ErrNotSent) {
		return w.process.gone()
	}
	return !errors.Is(err, context.DeadlineExceeded)
}

const untoldHint = "the process has forgotten the PIN, but the token may still be unlocked: unplug it, then plug it in"

// Close implements [Token]: the worker ends.
func (t *heldToken) Close() error {
	before := t.peer.process.forced.Load() // already reported
	err := t.peer.process.end()
	if err == nil && !before && t.peer.process.forced.Load() {
		err = hint.With(fmt.Errorf("%w: the %s did not release the token, so its process was ended",
			hsm.ErrModule, t.peer.library), untoldHint)
	}
	return err
}
