//go:build unix

package worker

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io"

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
	out, err := w.call(ctx, "token-open", arguments{URI: u}, call{})
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
func (r results) info() (hsm.TokenInfo, error) {
	if r.Info == nil {
		return hsm.TokenInfo{}, fmt.Errorf("%w: no description", wire.ErrFrame)
	}
	return *r.Info, nil
}

// about is what an operation on the token is asked with. p is who can be asked, if anybody.
func (t *workerToken) about(p hsm.Prompter) call {
	return call{handle: t.handle, token: &t.info, prompter: p}
}

// do asks for an operation on the token.
func (t *workerToken) do(ctx context.Context, op string, q arguments, p hsm.Prompter) (results, error) {
	return t.peer.call(ctx, op, q, t.about(p))
}

// Info implements [hsm.Token].
func (t *workerToken) Info(ctx context.Context) (hsm.TokenInfo, error) {
	out, err := t.do(ctx, "token-info", arguments{}, nil)
	if err != nil {
		return hsm.TokenInfo{}, err
	}
	return out.info()
}

// slot is the answer to an operation whose answer is a slot.
func slot(out results, err error) (hsm.Slot, error) {
	if err != nil {
		return hsm.Slot{}, err
	}
	return out.Slot.unpack()
}

// Slot implements [hsm.Token].
func (t *workerToken) Slot(ctx context.Context, u hsm.URI) (hsm.Slot, error) {
	return slot(t.do(ctx, "token-slot", arguments{URI: u}, nil))
}

// maxSlots bounds how many slots are read of a token.
const maxSlots = 100_000

// slots reads what is on the token, a part at a time over one connection.
func (t *workerToken) slots(ctx context.Context, all bool, p hsm.Prompter) (found []hsm.Slot, err error) {
	c, err := t.peer.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for q := (arguments{All: all}); ; {
		out, err := t.peer.ask(ctx, c, "token-slots", q, t.about(p))
		if err != nil {
			return nil, err
		}
		if found, err = joined(found, out.Slots); err != nil {
			return nil, err
		}
		q.From += len(out.Slots)
		if q.From >= out.Total || len(out.Slots) == 0 || q.From > maxSlots {
			return found, nil
		}
	}
}

// Slots implements [hsm.Token].
func (t *workerToken) Slots(ctx context.Context, p hsm.Prompter) ([]hsm.Slot, error) {
	return t.slots(ctx, false, p)
}

// AllSlots implements [hsm.Administration].
func (t *workerToken) AllSlots(ctx context.Context) ([]hsm.Slot, error) {
	return t.slots(ctx, true, nil)
}

// Unlock implements [hsm.Token].
func (t *workerToken) Unlock(ctx context.Context, p hsm.Prompter) error {
	_, err := t.do(ctx, "token-unlock", arguments{}, p)
	return err
}

// Unlocked implements [hsm.Token]. A worker that does not say counts as locked.
func (t *workerToken) Unlocked() bool {
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	out, err := t.do(ctx, "token-state", arguments{}, nil)
	return err == nil && out.Unlocked
}

// Lock implements [hsm.Token].
func (t *workerToken) Lock() error {
	_, err := t.do(context.Background(), "token-lock", arguments{}, nil)
	return err
}

// Close implements [hsm.Token]. A token whose process has ended is closed.
func (t *workerToken) Close() error {
	if p := t.peer.process; p.gone() || p.dismissed() || p.left.Load() { // left: a cancelled call may still run
		return nil
	}
	_, err := t.do(context.Background(), "token-close", arguments{}, nil)
	return err
}

// Generate implements [hsm.Token].
func (t *workerToken) Generate(ctx context.Context, o hsm.GenerateOptions, p hsm.Prompter) (hsm.Slot, error) {
	return slot(t.do(ctx, "token-generate", arguments{Generate: o}, p))
}

// StoreCertificate implements [hsm.Token].
func (t *workerToken) StoreCertificate(ctx context.Context, u hsm.URI, cert *x509.Certificate, p hsm.Prompter) error {
	_, err := t.do(ctx, "token-store", arguments{URI: u, Certificate: cert.Raw}, p)
	return err
}

// Delete implements [hsm.Token].
func (t *workerToken) Delete(ctx context.Context, u hsm.URI, p hsm.Prompter) error {
	_, err := t.do(ctx, "token-delete", arguments{URI: u}, p)
	return err
}

// Attest implements [hsm.Administration].
func (t *workerToken) Attest(ctx context.Context, u hsm.URI) (hsm.Attestation, error) {
	out, err := t.do(ctx, "token-attest", arguments{URI: u}, nil)
	return out.Attestation, err
}

// Details implements [hsm.Administration].
func (t *workerToken) Details(ctx context.Context) (hsm.Details, error) {
	out, err := t.do(ctx, "token-details", arguments{}, nil)
	return out.Details, err
}

// ChangePIN implements [hsm.Administration].
func (t *workerToken) ChangePIN(ctx context.Context, kind hsm.PINKind, p hsm.Prompter) error {
	_, err := t.do(ctx, "token-change-pin", arguments{Kind: kind}, p)
	return err
}

// Unblock implements [hsm.Administration].
func (t *workerToken) Unblock(ctx context.Context, p hsm.Prompter) error {
	_, err := t.do(ctx, "token-unblock", arguments{}, p)
	return err
}

// Reset implements [hsm.Administration].
func (t *workerToken) Reset(ctx context.Context, p hsm.Prompter) error {
	_, err := t.do(ctx, "token-reset", arguments{}, p)
	return err
}

// SetManagementKey implements [hsm.Administration].
func (t *workerToken) SetManagementKey(ctx context.Context, o hsm.ManagementKeyOptions, p hsm.Prompter) (*hsm.Secret,
	error) {
	var key *hsm.Secret
	c := t.about(p)
	c.secret = o.Key
	c.received = func(s *hsm.Secret) {
		key.Zero()
		key = s
	}
	q := arguments{Given: o.Key != nil, ManagementKey: o}
	q.ManagementKey.Key = nil
	_, err := t.peer.call(ctx, "token-management-key", q, c)
	return key, err
}

// Signer implements [hsm.Token]. The signer is for use within ctx.
func (t *workerToken) Signer(ctx context.Context, u hsm.URI, want crypto.PublicKey, p hsm.Prompter) (crypto.Signer,
	error) {
	q := arguments{URI: u}
	var err error
	if want != nil {
		if q.Want, err = x509.MarshalPKIXPublicKey(want); err != nil {
			return nil, err
		}
	}
	c, err := t.peer.connect()
	if err != nil {
		return nil, err
	}
	out, err := t.peer.ask(ctx, c, "token-signer", q, t.about(p))
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	public, err := x509.ParsePKIXPublicKey(out.Public)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", wire.ErrFrame, err), c.Close())
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	return &workerSigner{token: t, client: c, ctx: ctx, p: p, public: public}, nil
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
	q := arguments{Digest: digest, Hash: o.HashFunc()}
	if pss, ok := o.(*rsa.PSSOptions); ok {
		q.Salt = &pss.SaltLength
	}
	out, err := s.token.peer.ask(s.ctx, s.client, "token-sign", q, s.token.about(s.p))
	return out.Signature, err
}
