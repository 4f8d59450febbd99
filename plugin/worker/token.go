//go:build unix

package worker

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// workerToken is a token that a worker has open.
type workerToken struct {
	peer   *peer
	handle int
	info   hsm.TokenInfo // the token as it was when it was opened
}

var _ hsm.Token = (*workerToken)(nil)

// open has the worker open the token that u names.
func (w *peer) open(ctx context.Context, u hsm.URI) (*workerToken, hsm.TokenInfo, error) {
	out, err := callWorker[infoAnswer](ctx, w, opTokenOpen, named{u}, call{limit: openTimeout})
	if err != nil {
		return nil, hsm.TokenInfo{}, err
	}
	info, err := out.info()
	if err == nil && !names(u, info) {
		err = fmt.Errorf("%w: the %s opened %s instead of %s", hsm.ErrModule, w.library, info.URI().Identity(), u.Identity())
	}
	return &workerToken{w, out.Handle, info}, info, err
}

// names tells whether u names the token, whichever library reaches it.
func names(u hsm.URI, info hsm.TokenInfo) bool {
	info.Module = nil
	return u.MatchToken(info)
}

// info is the description. Errors wrap [wire.ErrFrame].
func (a infoAnswer) info() (hsm.TokenInfo, error) {
	if a.Info == nil {
		return hsm.TokenInfo{}, fmt.Errorf("%w: no description", wire.ErrFrame)
	}
	return *a.Info, nil
}

// of is an operation on the token.
func (t *workerToken) of(limit time.Duration, p hsm.Prompter) call {
	return call{handle: t.handle, token: &t.info, limit: limit, prompter: p}
}

// Info implements [hsm.Token].
func (t *workerToken) Info(ctx context.Context) (hsm.TokenInfo, error) {
	out, err := callWorker[infoAnswer](ctx, t.peer, opTokenInfo, nothing{}, t.of(infoTimeout, nil))
	if err != nil {
		return hsm.TokenInfo{}, err
	}
	return out.info()
}

// slot is the answer to an operation whose answer is a slot.
func slot(out slotAnswer, err error) (hsm.Slot, error) {
	if err != nil {
		return hsm.Slot{}, err
	}
	return out.Slot.unpack()
}

// Slot implements [hsm.Token].
func (t *workerToken) Slot(ctx context.Context, u hsm.URI) (hsm.Slot, error) {
	return slot(callWorker[slotAnswer](ctx, t.peer, opTokenSlot, named{u}, t.of(infoTimeout, nil)))
}

// maxSlots bounds how many slots are read of a token.
const maxSlots = 100_000

// slots reads what is on the token, a part at a time over one connection.
func (t *workerToken) slots(ctx context.Context, q slotsRequest, p hsm.Prompter) (all []hsm.Slot, err error) {
	c, err := t.peer.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for {
		out, err := askWorker[slotsAnswer](ctx, t.peer, c, opTokenSlots, q, t.of(infoTimeout, p))
		if err != nil {
			return nil, err
		}
		if all, err = joined(all, out.Slots); err != nil {
			return nil, err
		}
		q.From += len(out.Slots)
		if q.From >= out.Total || len(out.Slots) == 0 || q.From > maxSlots {
			return all, nil
		}
	}
}

// Slots implements [hsm.Token].
func (t *workerToken) Slots(ctx context.Context, p hsm.Prompter) ([]hsm.Slot, error) {
	return t.slots(ctx, slotsRequest{asking: asking{p != nil}}, p)
}

// AllSlots implements [hsm.Administration].
func (t *workerToken) AllSlots(ctx context.Context) ([]hsm.Slot, error) {
	return t.slots(ctx, slotsRequest{All: true}, nil)
}

// Unlock implements [hsm.Token].
func (t *workerToken) Unlock(ctx context.Context, p hsm.Prompter) error {
	_, err := callWorker[nothing](ctx, t.peer, opTokenUnlock, asking{p != nil}, t.of(signTimeout, p))
	return err
}

// Unlocked implements [hsm.Token]. A worker that does not say counts as locked.
func (t *workerToken) Unlocked() bool {
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	out, err := callWorker[stateAnswer](ctx, t.peer, opTokenState, nothing{}, call{handle: t.handle, quiet: true})
	return err == nil && out.Unlocked
}

// Lock implements [hsm.Token].
func (t *workerToken) Lock() error {
	_, err := callWorker[nothing](context.Background(), t.peer, opTokenLock, nothing{}, t.of(lockTimeout, nil))
	return err
}

// Close implements [hsm.Token]. A token whose process has ended is closed.
func (t *workerToken) Close() error {
	if p := t.peer.process; p.gone() || p.dismissed() || p.left.Load() { // left: a cancelled call may still run
		return nil
	}
	_, err := callWorker[nothing](context.Background(), t.peer, opTokenClose, nothing{}, t.of(lockTimeout, nil))
	return err
}

// Signer implements [hsm.Token]. The signer is for use within ctx.
func (t *workerToken) Signer(ctx context.Context, u hsm.URI, want crypto.PublicKey, p hsm.Prompter) (crypto.Signer,
	error) {
	r := signerRequest{named: named{u}, asking: asking{p != nil}}
	var err error
	if want != nil {
		if r.Want, err = x509.MarshalPKIXPublicKey(want); err != nil {
			return nil, err
		}
	}
	c, err := t.peer.connect()
	if err != nil {
		return nil, err
	}
	out, err := askWorker[signerAnswer](ctx, t.peer, c, opTokenSigner, r, t.of(signTimeout, p))
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
	out, err := askWorker[signatureAnswer](s.ctx, s.token.peer, s.client, opTokenSign, r, s.token.of(signTimeout, s.p))
	if err != nil {
		return nil, err
	}
	return out.Signature, nil
}
