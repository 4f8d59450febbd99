//go:build unix

package worker

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process/child"
)

// How long a worker may take, not counting what a person takes to answer. Then
// its library hangs, and the process is ended.
const (
	openTimeout  = 30 * time.Second // libraries may look through networks
	infoTimeout  = 30 * time.Second
	stateTimeout = 2 * time.Second
	lockTimeout  = 8 * time.Second
	liveTimeout  = 500 * time.Millisecond // a sign of life
	signTimeout  = 90 * time.Second       // time for a touch, or for a PIN typed on the reader
)

// workerToken is a token that a worker holds. Each call has a connection of its own.
type workerToken struct {
	process *workerProcess
	library string // what may crash or hang, for words
	o       Options
	died    func() // is told of a death that nobody wanted
	settle  func() // has the token locked by another worker
	told    sync.Once
}

func (t *workerToken) connect() (*link.Client, error) {
	if t.process.gone() {
		t.tell()
		return nil, ErrNotSent
	}
	conn, err := child.SendConn(t.process.control)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return link.NewClient(conn, t.o.Codes), nil
}

// callWorker asks on a connection of its own.
func callWorker[A, Q any](ctx context.Context, t *workerToken, op string, q Q, p hsm.Prompter,
	limit time.Duration) (A, error) {
	c, err := t.connect()
	if err != nil {
		var none A
		return none, err
	}
	defer c.Close()
	return askWorker[A](ctx, t, c, op, q, p, limit)
}

// askWorker asks on c. A worker that takes longer than limit is ended, not counting what a
// person takes; 0 is no limit.
func askWorker[A, Q any](ctx context.Context, t *workerToken, c *link.Client, op string, q Q, p hsm.Prompter,
	limit time.Duration) (A, error) {
	if limit > 0 && t.o.Longest > 0 {
		limit = min(limit, t.o.Longest)
	}
	var out workerAnswer[A]
	r := &workerRequest[Q]{Header: link.Header{Op: op}, Token: q}
	err := c.Call(ctx, r, &out, link.Options{Prompter: ask.From(p), Limit: limit})
	_, lost := errors.AsType[*link.Lost](err)
	switch {
	case errors.Is(err, link.ErrSlow):
		t.process.kill()
		t.tell()
		err = hint.With(
			fmt.Errorf("%w: the %s did not answer for %s, so its process was ended", hsm.ErrModule, t.library, limit),
			"run the command again; plug the token out and in if that does not help")
	case lost:
		err = t.crashed()
	}
	return out.Token, err
}

// crashed says why a connection to the worker broke.
func (t *workerToken) crashed() error {
	select {
	case <-t.process.exited:
	case <-time.After(time.Second): // it lives and does not speak to us
		t.process.kill()
	}
	select {
	case <-t.process.asked:
		return t.o.Dismissed
	default:
	}
	if t.process.cmd.ProcessState.Success() { // somebody told it to end: it has locked its token
		return t.o.Dismissed
	}
	t.tell()
	how := t.process.words.crash()
	if how == "" {
		how = t.process.cmd.ProcessState.String()
	}
	return hint.With(fmt.Errorf("%w: the %s crashed (%s)", hsm.ErrModule, t.library, how),
		"run the command again; the agent and its other tokens go on")
}

// tell counts the death, once.
func (t *workerToken) tell() {
	select {
	case <-t.process.asked:
	default:
		t.told.Do(t.died)
	}
}

// Info implements [Token].
func (t *workerToken) Info(ctx context.Context) (hsm.TokenInfo, error) {
	out, err := callWorker[infoAnswer](ctx, t, opTokenInfo, nothing{}, nil, infoTimeout)
	if err != nil {
		return hsm.TokenInfo{}, err
	}
	if out.Info == nil {
		return hsm.TokenInfo{}, fmt.Errorf("%w: no description", wire.ErrFrame)
	}
	return *out.Info, nil
}

// Slot implements [Token].
func (t *workerToken) Slot(ctx context.Context, u hsm.URI) (hsm.Slot, error) {
	out, err := callWorker[slotAnswer](ctx, t, opTokenSlot, named{u}, nil, infoTimeout)
	if err != nil {
		return hsm.Slot{}, err
	}
	if out.Slot == nil {
		return hsm.Slot{}, fmt.Errorf("%w: no slot", wire.ErrFrame)
	}
	return out.Slot.unpack()
}

// Unlock implements [Token].
func (t *workerToken) Unlock(ctx context.Context, p hsm.Prompter) error {
	_, err := callWorker[nothing](ctx, t, opTokenUnlock, asking{p != nil}, p, signTimeout)
	return err
}

// Unlocked implements [Token]. A worker that does not say counts as locked.
func (t *workerToken) Unlocked() bool {
	c, err := t.connect()
	if err != nil {
		return false
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	out, err := askWorker[stateAnswer](ctx, t, c, opTokenState, nothing{}, nil, 0)
	return err == nil && out.Unlocked
}

// Lock implements [Token].
func (t *workerToken) Lock() error {
	done := make(chan error, 1)
	go func() {
		_, err := callWorker[nothing](context.Background(), t, opTokenLock, nothing{}, nil, lockTimeout)
		done <- err
	}()
	tick := time.NewTicker(liveTimeout)
	defer tick.Stop()
	for t.answers() {
		select {
		case err := <-done:
			return t.locked(err)
		case <-tick.C:
		}
	}
	t.process.kill()
	t.settle()
	return ErrEnded
}

// locked is the outcome of a lock that the worker was asked for.
func (t *workerToken) locked(err error) error {
	if errors.Is(err, ErrNotSent) || errors.Is(err, t.o.Dismissed) {
		return nil // the login has gone with it
	}
	if errors.Is(err, hsm.ErrModule) && t.process.gone() {
		t.settle()
		return hint.With(err, untoldHint)
	}
	return err
}

// answers tells whether the worker gives a sign of life; one that has ended needs not.
func (t *workerToken) answers() bool {
	c, err := t.connect()
	if err != nil {
		return t.process.gone()
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*liveTimeout)
	defer cancel()
	_, err = askWorker[nothing](ctx, t, c, opTokenAlive, nothing{}, nil, 0)
	return !errors.Is(err, context.DeadlineExceeded)
}

const untoldHint = "the process has forgotten the PIN, but the token may still be unlocked: pull it out once"

// Close implements [Token]: the worker ends.
func (t *workerToken) Close() error {
	before := t.process.forced.Load() // that has been told
	err := t.process.end()
	if err == nil && !before && t.process.forced.Load() {
		err = hint.With(fmt.Errorf("%w: the %s did not let the token go, so its process was ended", hsm.ErrModule, t.library),
			untoldHint)
	}
	return err
}

// Signer implements [Token]. The signer is for one signature within ctx.
func (t *workerToken) Signer(ctx context.Context, u hsm.URI, want crypto.PublicKey, p hsm.Prompter) (crypto.Signer,
	error) {
	r := signerRequest{named: named{u}, asking: asking{p != nil}}
	var err error
	if want != nil {
		if r.Want, err = x509.MarshalPKIXPublicKey(want); err != nil {
			return nil, err
		}
	}
	c, err := t.connect()
	if err != nil {
		return nil, err
	}
	out, err := askWorker[signerAnswer](ctx, t, c, opTokenSigner, r, p, signTimeout)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	public, err := x509.ParsePKIXPublicKey(out.Public)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", wire.ErrFrame, err), c.Close())
	}
	s := &workerSigner{token: t, client: c, ctx: ctx, p: p, public: public}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	return s, nil
}

type workerSigner struct {
	token  *workerToken
	client *link.Client
	ctx    context.Context
	p      hsm.Prompter
	public crypto.PublicKey
}

// Public implements [crypto.Signer].
func (s *workerSigner) Public() crypto.PublicKey { return s.public }

// Sign implements [crypto.Signer].
func (s *workerSigner) Sign(_ io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	r := newSignatureRequest(digest, o)
	r.Asks = s.p != nil
	out, err := askWorker[signatureAnswer](s.ctx, s.token, s.client, opTokenSign, r, s.p, signTimeout)
	if err != nil {
		return nil, err
	}
	return out.Signature, nil
}
