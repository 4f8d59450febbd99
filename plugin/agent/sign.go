package agent

import (
	"context"
	"crypto"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	signer "github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
)

// sign makes a signature for the external signer protocol, which leads to a
// connection past the bridge. So it is made only where a connection alone needs
// nobody's yes: by an enrolled key that is held unlocked now, and whose
// enrolments all leave it at signing in. For any other the token itself is asked,
// and so is its user.
func (a *agent) sign(ctx context.Context, q requester, s *wire.Sign, p *remotePrompter) (*wire.Signed, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: nothing to sign", wire.ErrFrame)
	}
	var opts crypto.SignerOpts = crypto.Hash(s.Hash)
	if s.Salt != nil {
		opts = &rsa.PSSOptions{SaltLength: *s.Salt, Hash: crypto.Hash(s.Hash)}
	}
	r, err := signer.FromParts(map[string]string{signer.KeyURI: s.Key}, s.Digest, opts)
	if err != nil {
		return nil, err
	}
	e, err := a.enrolledKey(*r.Config.URI)
	if errors.Is(err, enrollment.ErrUnknown) || errors.Is(err, errAsksConsent) || err == nil && !a.tokens.of(e.Key).unlocked() {
		return &wire.Signed{}, nil
	}
	if err != nil {
		return nil, err
	}
	public, err := a.publicKey(e, r.Opts)
	if err != nil {
		return nil, err
	}
	defer a.tokens.of(e.Key).asks.tell(p)()
	signature, err := a.signHeld(withRequester(ctx, q), e, public, r, p)
	if errors.Is(err, hsm.ErrPINRequired) { // for each signature
		return &wire.Signed{}, nil
	}
	a.records.signed(e, q, err)
	if err != nil {
		return nil, err
	}
	return &wire.Signed{Held: true, Signature: signature}, nil
}

// errAsksConsent says that the agent signs nothing with a key for others.
var errAsksConsent = errors.New("its enrolment asks for consent, which such a signature would go round")

// enrolledKey finds an enrolment of the key. The error wraps
// [enrollment.ErrUnknown] if there is none, errAsksConsent if one of them wants
// more than signing in.
func (a *agent) enrolledKey(u hsm.URI) (found enrollment.Enrollment, err error) {
	all, err := a.store.List()
	if err != nil {
		return found, err
	}
	i := slices.IndexFunc(all, func(e enrollment.Enrollment) bool { return e.Key.Identity().String() == u.Identity().String() })
	if i < 0 {
		return found, fmt.Errorf("%s: %w", u, enrollment.ErrUnknown)
	}
	if policy, _ := a.policies.of(all[i]); policy.Asks() { // the policy of all enrolments with the key, whatever their URI
		return found, fmt.Errorf("%s: %w", all[i].Name, errAsksConsent)
	}
	return all[i], nil
}

// publicKey is that of an enrolment, if its kind signs with such options: a card
// would take a text of any length where no hash is named.
func (a *agent) publicKey(e enrollment.Enrollment, opts crypto.SignerOpts) (crypto.PublicKey, error) {
	chain, err := a.store.Certificate(e)
	if err != nil {
		return nil, err
	}
	return chain[0].PublicKey, signer.CheckKey(chain[0].PublicKey, opts)
}

// signHeld signs with the key of an enrolment, which is public's; a lock ends it.
// p is not asked for a PIN.
func (a *agent) signHeld(ctx context.Context, e enrollment.Enrollment, public crypto.PublicKey, r signer.Request, p hsm.Prompter) ([]byte, error) {
	ctx, cancel := a.epoch.untilLocked(ctx)
	defer cancel()
	ctx, cancelTouch := context.WithTimeout(ctx, touchTimeout)
	defer cancelTouch()
	s, err := a.tokens.of(e.Key).signer(ctx, e.Key, public, touchOnly{p})
	if err != nil {
		return nil, lockedOr(ctx, err)
	}
	signature, err := s.Sign(nil, r.Digest, r.Opts)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, hsm.ErrTouchTimeout) {
		err = cause
	}
	return signature, err
}

// touchOnly is a prompter that shows touches, to whoever is there, and asks
// nothing.
type touchOnly struct{ p hsm.Prompter }

func (t touchOnly) Touch(ctx context.Context, p hsm.TouchPrompt) func() {
	if t.p == nil {
		return func() {}
	}
	return t.p.Touch(ctx, p)
}

func (touchOnly) PIN(context.Context, hsm.PINPrompt) (*hsm.Secret, error) {
	return nil, hsm.ErrPINRequired
}

func (touchOnly) Confirm(context.Context, hsm.ConfirmPrompt) (bool, error) {
	return false, hsm.ErrNoTerminal
}
