package host

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	signer "github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
)

// keys are those that the external signer protocol may use: for connections past
// the bridge, which nobody is asked about.
type keys struct {
	store    enrollment.Store
	versions *auditing.Versions
	tokens   *token.Holders
	epoch    *epoch
}

// errAsksConsent says that the agent signs nothing for other programs with a key whose
// enrollment asks for consent.
var errAsksConsent = errors.New("its enrollment asks for consent, which such a signature would go round")

// enrolled finds an enrollment of the key. The error wraps
// [enrollment.ErrUnknown] if there is none, errAsksConsent if one of them wants
// more than signing in.
func (s *keys) enrolled(u hsm.URI) (found enrollment.Enrollment, err error) {
	all, err := s.store.List()
	if err != nil {
		return found, err
	}
	i := slices.IndexFunc(all,
		func(e enrollment.Enrollment) bool { return e.Key.Identity().String() == u.Identity().String() })
	if i < 0 {
		return found, fmt.Errorf("%s: %w", u, enrollment.ErrUnknown)
	}
	policies, _, err := s.versions.Of(all[i]) // of all enrollments with the key, whatever their URI
	if err != nil {
		return found, err
	}
	if policies.Asks() {
		return found, fmt.Errorf("%s: %w", all[i].Name, errAsksConsent)
	}
	return all[i], nil
}

// public returns the public key of an enrollment, if keys of its kind sign with such
// options: a card would take a text of any length where no hash is named.
func (s *keys) public(e enrollment.Enrollment, opts crypto.SignerOpts) (crypto.PublicKey, error) {
	chain, err := s.store.Certificate(e)
	if err != nil {
		return nil, err
	}
	return chain[0].PublicKey, signer.CheckKey(chain[0].PublicKey, opts)
}

// touchTimeout bounds the wait for a touch that no handshake bounds. Most cards
// give up after 15 s themselves.
const touchTimeout = time.Minute

// sign signs with the key of an enrollment, whose public half is public. It ends when the
// agent locks, and asks nobody for a PIN.
func (s *keys) sign(ctx context.Context, u token.Use, e enrollment.Enrollment, public crypto.PublicKey,
	r signer.Request) ([]byte, error) {
	ctx, cancel := s.epoch.untilLocked(ctx)
	defer cancel()
	ctx, cancelTouch := context.WithTimeout(ctx, touchTimeout)
	defer cancelTouch()
	u.Ask = touchOnly(u.Ask)
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

// certificate returns the certificate, with its chain, of the enrollment that the
// configuration names, or of any enrollment with the configuration's key.
func (s *keys) certificate(c signer.Config) (out externalsigner.Answer, err error) {
	var e enrollment.Enrollment
	key := c.URI.Identity().String()
	if c.Enrollment != "" {
		e, err = s.store.Load(c.Enrollment)
	}
	if c.Enrollment == "" || err != nil || e.Key.Identity().String() != key {
		all, lerr := s.store.List()
		if lerr != nil {
			return out, lerr
		}
		err = hint.With(fmt.Errorf("%s: no enrollment has this key: %w", c.URI, enrollment.ErrUnknown),
			"`kubehsm enroll` makes one")
		for _, each := range all {
			if each.Key.Identity().String() == key {
				e, err = each, nil
				break
			}
		}
	}
	if err != nil {
		return out, err
	}
	chain, err := s.store.Certificate(e)
	if err != nil {
		return out, err
	}
	return externalsigner.Certified(chain), nil
}

// touchOnly shows touches, to whoever is there, and asks nothing: not even whether one
// would be seen, as clients of [wire.OpSign] understand no such question.
func touchOnly(next ask.Func) ask.Func {
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		switch {
		case q.PIN != nil:
			return ask.Answer{}, hsm.ErrPINRequired
		case q.Touch != nil && next != nil:
			return next(ctx, q)
		}
		return ask.Answer{}, hsm.ErrNoTerminal
	}
}
