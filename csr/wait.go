package csr

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

type waitConfig struct {
	// stall is how long an approved request may stay unsigned before the user is told
	// once; 0 never tells.
	stall time.Duration
	// retryMin and retryMax bound the doubling pause between attempts.
	retryMin, retryMax time.Duration
	// settled is how long a watch must have lived to be followed by another at once.
	settled time.Duration
	// poll is the pause between reads where watching is not allowed.
	poll time.Duration
	// grace is how long an API server that has answered before may refuse with
	// 401, 403 or a foreign 404: one that starts does so before its caches fill.
	grace time.Duration
	// watchFor is when the server shall end the watch (5 to 10 min, jittered).
	watchFor time.Duration
}

func defaultWait() waitConfig {
	return waitConfig{
		stall: 10 * time.Second, retryMin: 250 * time.Millisecond, retryMax: 10 * time.Second,
		settled: 10 * time.Second, poll: 2 * time.Second, grace: 30 * time.Second, watchFor: 5 * time.Minute,
	}
}

// Wait follows the request until it is issued (nil error), denied
// (*DeniedError), failed (*FailedError) or deleted (*DeletedError), or until
// ctx ends (its error, wrapped). The status returned is the last one seen.
//
// It survives what is temporary: an API server that restarts or cannot be
// reached, watches that break or expire. What is not ends it: a credential or
// a right that is missing, a handshake that fails. Where watching is not
// allowed it reads every 2 s.
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
		began := time.Now()
		err := w.round(ctx)
		if done, err := w.judge(ctx, err); done {
			return w.last, err
		}
		if err == nil && time.Since(began) >= cfg.settled {
			w.pause = cfg.retryMin
			continue
		}
		if err := w.sleep(ctx, err); err != nil {
			return w.last, w.interrupted(err)
		}
	}
}

// How a round of get and watch can end beside an API error.
var (
	errFinal   = errors.New("final state")
	errNoWatch = errors.New("watching is not allowed")
)

type waiter struct {
	c        *Client
	ref      Ref
	cfg      waitConfig
	onChange func(Status)

	last    Status
	seen    bool
	pause   time.Duration
	refused time.Time        // since when the server refuses; zero if it does not
	reading bool             // a read was begun and has not succeeded
	expired bool             // the last watch was too old to begin with
	stall   *time.Timer      // runs while approved
	stalled <-chan time.Time // nil once told
}

// round reads the request and watches it until the stream ends.
func (w *waiter) round(ctx context.Context) error {
	if w.expired {
		return w.roundFromNow(ctx)
	}
	obj, err := w.read(ctx)
	if err != nil {
		return err
	}
	return w.follow(ctx, obj.ResourceVersion, nil)
}

// roundFromNow is for a request last changed before what the server remembers:
// no watch can begin at its version. The watch begins at the present, and the
// read comes after, so that no deletion falls between the two.
func (w *waiter) roundFromNow(ctx context.Context) error {
	w.expired = false
	return w.follow(ctx, "", func() error {
		_, err := w.read(ctx)
		return err
	})
}

func (w *waiter) read(ctx context.Context) (*certificatesv1.CertificateSigningRequest, error) {
	w.reading = true
	obj, err := w.c.get(ctx, w.ref.Name)
	if isObjectNotFound(err) && (w.seen || w.ref.UID != "") {
		return nil, &DeletedError{Status: w.last}
	}
	if err != nil {
		return nil, err
	}
	w.reading = false
	return obj, w.observe(obj)
}

// follow watches from version on; opened is called once the stream stands.
func (w *waiter) follow(ctx context.Context, version string, opened func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A server that accepts and then says nothing must not hold the wait up.
	late := time.AfterFunc(w.c.patience, cancel)
	seconds := int64(w.cfg.watchFor.Seconds() * (1 + rand.Float64()))
	stream, err := w.c.stream(ctx, ListOptions{Name: w.ref.Name, ResourceVersion: version}, &seconds)
	if !late.Stop() {
		if stream != nil {
			stream.Stop()
		}
		return &timeoutError{}
	}
	if IsForbidden(err) || apierrors.IsMethodNotSupported(err) {
		return errNoWatch
	}
	if err != nil {
		return err
	}
	defer stream.Stop()
	if opened != nil {
		if err := opened(); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.stalled:
			w.noteStall(ctx)
		case e, ok := <-stream.ResultChan():
			if !ok {
				return nil
			}
			if err := w.event(e); err != nil {
				return err
			}
		}
	}
}

func (w *waiter) event(e watch.Event) error {
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	if e.Type == watch.Bookmark {
		return nil
	}
	obj, err := asRequest(e)
	if err != nil {
		return err
	}
	w.pause = w.cfg.retryMin
	if e.Type == watch.Deleted {
		if w.ref.UID != "" && obj.UID != w.ref.UID {
			return nil
		}
		// It may have been decided and deleted in one go.
		if s := StateOf(obj); !s.State.Final() {
			return &DeletedError{Status: s}
		}
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
	case err == nil, errors.Is(err, errNoWatch):
		return false, nil
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		w.expired = true
		return false, nil
	case transient(err), w.seen && w.inGrace(err):
		// A watch that fails is followed by a read, which tells for sure.
		if w.reading {
			w.lose(err)
		}
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

// sleep pauses before the next round: fixed when polling, else doubling with
// jitter, so that many who wait do not return at the same moment.
func (w *waiter) sleep(ctx context.Context, err error) error {
	d := w.cfg.poll
	if !errors.Is(err, errNoWatch) {
		d = w.pause/2 + rand.N(w.pause/2+1)
		w.pause = min(2*w.pause, w.cfg.retryMax)
	}
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
