package csr

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

type waitConfig struct {
	// stall is how long an approved request may stay unsigned before the user is told
	// once; 0 never tells.
	stall time.Duration
	// retryMin and retryMax bound the doubling pause between attempts.
	retryMin, retryMax time.Duration
	// poll bounds the doubling pause between reads that succeed.
	poll time.Duration
	// settled is how long a watch must have lived to be followed by another at once.
	settled time.Duration
	// grace is how long an API server that has answered before may refuse with
	// 401, 403 or a foreign 404: one that starts does so before its caches fill.
	grace time.Duration
}

func defaultWait() waitConfig {
	return waitConfig{
		stall: 10 * time.Second, retryMin: 250 * time.Millisecond, retryMax: 10 * time.Second, poll: 2 * time.Second,
		settled: 10 * time.Second, grace: 30 * time.Second,
	}
}

// Wait reads the request until it is issued (nil error), denied
// (*DeniedError), failed (*FailedError) or deleted (*DeletedError), or until
// ctx ends (its error, wrapped). The status returned is the last one seen. It
// takes no right but to read the request by its name.
//
// It survives what is temporary: an API server that restarts or cannot be
// reached. What is not ends it: a credential or a right that is missing, a
// handshake that fails.
//
// onChange, if not nil, is called from the caller's goroutine: with the first
// status, at each change of state, once when the connection is lost and once
// when it is back (Status.Lost), and with a Status.Note once. If ref has no
// UID, the first request found by the name is the one followed.
func (c *Client) Wait(ctx context.Context, ref Ref, onChange func(Status)) (Status, error) {
	return c.wait(ctx, ref, onChange, defaultWait())
}

func (c *Client) wait(ctx context.Context, ref Ref, onChange func(Status), cfg waitConfig) (Status, error) {
	if onChange == nil {
		onChange = func(Status) {}
	}
	w := &waiter{c: c, ref: ref, cfg: cfg, onChange: onChange, pause: cfg.retryMin}
	defer w.stopStall()
	for {
		err := w.read(ctx)
		if done, err := w.judge(ctx, err); done {
			return w.last, err
		}
		if err := w.sleep(ctx, err); err != nil {
			return w.last, w.interrupted(err)
		}
	}
}

// errFinal ends the wait.
var errFinal = errors.New("final state")

type waiter struct {
	c        *Client
	ref      Ref
	cfg      waitConfig
	onChange func(Status)

	last    Status
	seen    bool
	pause   time.Duration
	refused time.Time        // since when the server refuses; zero if it does not
	stall   *time.Timer      // runs while approved
	stalled <-chan time.Time // nil once told
}

func (w *waiter) read(ctx context.Context) error {
	obj, err := w.c.get(ctx, w.ref.Name)
	if isObjectNotFound(err) && (w.seen || w.ref.UID != "") {
		return &DeletedError{Status: w.last}
	}
	if err != nil {
		return err
	}
	return w.observe(obj)
}

// observe takes in the request as read; errFinal ends the wait.
func (w *waiter) observe(obj *certificatesv1.CertificateSigningRequest) error {
	w.refused = time.Time{}
	if w.ref.UID == "" {
		w.ref.UID = obj.UID
	}
	if obj.UID != w.ref.UID {
		return &DeletedError{Status: w.last, Recreated: true}
	}
	now := StateOf(obj)
	news := !w.seen || w.last.State != now.State || w.last.Lost != nil
	// A server's cache can lag behind what was seen; states only move on.
	if w.seen && !w.last.State.Final() && now.State == Pending && w.last.State == Approved {
		now, news = w.last, w.last.Lost != nil
		now.Lost = nil
	}
	if now.State == Approved && w.stall == nil && w.cfg.stall > 0 {
		w.stall = time.NewTimer(w.cfg.stall)
		w.stalled = w.stall.C
	}
	w.seen, w.last = true, now
	if news {
		w.pause = w.cfg.retryMin
		w.onChange(now)
	}
	if now.State.Final() {
		return errFinal
	}
	return nil
}

func (w *waiter) noteStall(ctx context.Context) {
	w.stalled = nil
	s := w.last
	means := fmt.Sprintf("some clusters never sign for %s: ask the admin which signer does", s.Object.Spec.SignerName)
	if s.Object.Spec.SignerName == ClientSigner {
		if why := w.c.ControlPlane().SignsNever(ctx, ClientSigner); why != "" {
			means = why
		}
	}
	s.Note = fmt.Sprintf("approved, but nothing has signed it for %v; %s", w.cfg.stall, means)
	w.onChange(s)
}

func (w *waiter) stopStall() {
	if w.stall != nil {
		w.stall.Stop()
	}
}

// judge tells the end of the wait from a reason to go on, and reports a
// connection lost.
func (w *waiter) judge(ctx context.Context, err error) (done bool, result error) {
	var deleted *DeletedError
	switch {
	case errors.Is(err, errFinal):
		return true, w.last.Err()
	case errors.As(err, &deleted):
		return true, deleted
	case ctx.Err() != nil:
		return true, w.interrupted(ctx.Err())
	case err == nil:
		return false, nil
	case transient(err), w.seen && w.inGrace(err):
		w.lose(err)
		return false, nil
	case IsForbidden(err):
		return true, w.c.lacks(ctx, "read request "+w.ref.Name, err, "get")
	default:
		return true, apiError("wait for request "+w.ref.Name, w.c.host, err)
	}
}

// inGrace is for answers that a server gives before it has filled its caches.
func (w *waiter) inGrace(err error) bool {
	if !IsForbidden(err) && !apierrors.IsUnauthorized(err) && !apierrors.IsNotFound(err) {
		return false
	}
	if w.refused.IsZero() {
		w.refused = time.Now()
	}
	return time.Since(w.refused) < w.cfg.grace
}

func (w *waiter) lose(err error) {
	before := w.last.Lost
	w.last.Lost = apiError("wait for request "+w.ref.Name, w.c.host, err)
	if before == nil {
		w.onChange(w.last)
	}
}

// sleep pauses before the next read, with jitter, so that many who wait do not return at the same moment.
func (w *waiter) sleep(ctx context.Context, err error) error {
	limit := w.cfg.poll
	if err != nil {
		limit = w.cfg.retryMax
	}
	w.pause = min(w.pause, limit)
	d := w.pause/2 + rand.N(w.pause/2+1)
	w.pause = min(2*w.pause, limit)
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			return nil
		case <-w.stalledIfConnected():
			w.noteStall(ctx)
		}
	}
}

// stalledIfConnected withholds the note while nobody can know.
func (w *waiter) stalledIfConnected() <-chan time.Time {
	if w.last.Lost != nil {
		return nil
	}
	return w.stalled
}

func (w *waiter) interrupted(err error) error {
	switch {
	case w.last.Lost != nil:
		return fmt.Errorf("stopped waiting for request %s: %w; connection lost: %w", w.ref.Name, err, w.last.Lost)
	case !w.seen:
		return fmt.Errorf("stopped waiting for request %s: %w", w.ref.Name, err)
	default:
		return fmt.Errorf("stopped waiting for request %s, which is %s: %w", w.ref.Name, w.last.State, err)
	}
}
