package host

import (
	"context"
	"crypto"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	signer "github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
)

// externalSigner signs for the external signer protocol: for connections past the
// bridge, which nobody is asked about.
type externalSigner struct {
	store    enrollment.Store
	versions *auditing.Versions
	tokens   *token.Holders
	epoch    *epoch
	records  *auditing.Records
}

// sign makes a signature for the external signer protocol, which leads to a
// connection past the bridge. So it is made only where a connection alone needs
// nobody's yes: by an enrolled key that is held unlocked now, and whose
// enrollments all leave it at signing in. For any other the token itself is asked,
// and so is its user.
func (s *externalSigner) sign(ctx context.Context, q auditing.Requester, digest *wire.Sign,
	p *link.Asker) (*wire.Signed, error) {
	if digest == nil {
		return nil, fmt.Errorf("%w: nothing to sign", wire.ErrFrame)
	}
	var opts crypto.SignerOpts = crypto.Hash(digest.Hash)
	if digest.Salt != nil {
		opts = &rsa.PSSOptions{SaltLength: *digest.Salt, Hash: crypto.Hash(digest.Hash)}
	}
	r, err := signer.ForKey(digest.Key, digest.Digest, opts)
	if err != nil {
		return nil, err
	}
	e, found, err := s.enrolled(*r.Config.URI)
	if err != nil {
		return nil, err
	}
	if !found || !s.tokens.Of(e.Key).Unlocked() {
		return &wire.Signed{}, nil
	}
	public, err := s.public(e, r.Opts)
	if err != nil {
		return nil, err
	}
	defer s.tokens.Of(e.Key).Questions().Tell(p)()
	signature, err := s.signBy(ctx, token.Use{Client: q.Client, Ask: touchOnly(p.Ask)}, e, public, r)
	if errors.Is(err, hsm.ErrPINRequired) { // a PIN for each signature
		return &wire.Signed{}, nil
	}
	s.records.Signed(e, q, err)
	if err != nil {
		return nil, err
	}
	return &wire.Signed{Held: true, Signature: signature}, nil
}

// enrolled finds an enrollment of the key. There is none if one of the key's
// enrollments wants more than signing in.
func (s *externalSigner) enrolled(u hsm.URI) (e enrollment.Enrollment, found bool, err error) {
	all, err := s.store.List()
	if err != nil {
		return e, false, err
	}
	i := slices.IndexFunc(all,
		func(e enrollment.Enrollment) bool { return e.Key.Identity().String() == u.Identity().String() })
	if i < 0 {
		return e, false, nil
	}
	policies, _, err := s.versions.Of(all[i]) // of all enrollments with the key, under any URI
	return all[i], !policies.Asks(), err
}

// public returns the public key of an enrollment, if keys of its kind sign with such
// options: a card would take a text of any length where no hash is named.
func (s *externalSigner) public(e enrollment.Enrollment, opts crypto.SignerOpts) (crypto.PublicKey, error) {
	chain, err := s.store.Certificate(e)
	if err != nil {
		return nil, err
	}
	return chain[0].PublicKey, signer.CheckKey(chain[0].PublicKey, opts)
}

// touchTimeout bounds the wait for a touch that no handshake bounds. Most cards
// give up after 15 s themselves.
const touchTimeout = time.Minute

// signBy signs with the key of an enrollment, whose public half is public. It ends when the
// agent locks, and asks nobody for a PIN.
func (s *externalSigner) signBy(ctx context.Context, u token.Use, e enrollment.Enrollment, public crypto.PublicKey,
	r signer.Request) ([]byte, error) {
	ctx, cancel := s.epoch.untilLocked(ctx)
	defer cancel()
	ctx, cancelTouch := context.WithTimeout(ctx, touchTimeout)
	defer cancelTouch()
	key, err := s.tokens.Of(e.Key).Signer(ctx, u, e.Key, public)
	if err != nil {
		return nil, lockedOr(ctx, err)
	}
	signature, err := key.Sign(nil, r.Digest, r.Opts)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, hsm.ErrTouchTimeout) {
		err = cause
	}
	return signature, err
}

// touchOnly shows touches to the person, if there is one, and asks nothing: not even whether one
// would be seen, as clients of [wire.OpSign] understand no such question.
func touchOnly(next ask.Func) ask.Func {
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		switch {
		case q.PIN != nil:
			return ask.Answer{}, hsm.ErrPINRequired
		case q.Touch != nil:
			return next(ctx, q)
		}
		return ask.Answer{}, hsm.ErrNoTerminal
	}
}
