//go:build cgo

package pkcs11

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// labelLen is the length of a token's label in bytes, padded with blanks
// (PKCS#11 v2.40, CK_TOKEN_INFO).
const labelLen = 32

// Initialize implements [hsm.Initializer]. All PINs are asked for before the
// token is touched.
func (d *Driver) Initialize(ctx context.Context, u hsm.URI, o hsm.InitializeOptions, p hsm.Prompter) (hsm.TokenInfo,
	error) {
	if p == nil {
		return hsm.TokenInfo{}, hsm.ErrPINRequired
	}
	if len(o.Label) == 0 || len(o.Label) > labelLen || !utf8.ValidString(o.Label) {
		return hsm.TokenInfo{}, hint.With(fmt.Errorf("%q is no label for a token", o.Label),
			"use 1 to 32 bytes of text")
	}
	f, err := d.choose(ctx, u, o.Erase)
	if err != nil {
		return hsm.TokenInfo{}, err
	}
	tok, err := d.device(f)
	if err != nil {
		return hsm.TokenInfo{}, err
	}
	s := setup{d: tok.(*token).d, label: o.Label}
	if err := s.d.asking.enter(ctx); err != nil {
		return hsm.TokenInfo{}, errors.Join(err, tok.Close())
	}
	defer s.d.asking.leave()
	switch {
	case f.info.PIN.PINPad:
		err = s.onPad(ctx, p, f.info)
	case f.info.Initialized:
		err = s.erase(ctx, p)
	default:
		err = s.begin(ctx, p)
	}
	if err == nil || s.done.Initialized { // sessions that were opened before are gone
		d.forget(s.d)
		return s.done, err
	}
	return s.done, errors.Join(err, tok.Close())
}

// choose finds the token to set up: the blank one, or with erase the one that is set up.
func (d *Driver) choose(ctx context.Context, u hsm.URI, erase bool) (match, error) {
	s, err := d.search(ctx, u)
	if err != nil {
		return match{}, err
	}
	found := s.blank
	if erase {
		found = s.found
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return match{}, hint.With(fmt.Errorf("%s: %w", u, hsm.ErrSeveralTokens),
			fmt.Sprintf("name one by its slot, as 'pkcs11:slot-id=%d'", found[0].info.SlotID))
	case len(s.found) > 0:
		return match{}, hint.With(fmt.Errorf("token %q is initialized already: %w", s.found[0].info.Name(), hsm.ErrOccupied),
			"--erase initializes it again and destroys everything on it")
	case len(s.failed) > 0:
		return match{}, missing(u, s.failed)
	}
	return match{}, hint.With(fmt.Errorf("%s: no token to initialize: %w", u, hsm.ErrNoToken),
		"`kubehsm token list` shows what is there")
}

// setup sets a token up.
type setup struct {
	d     *device
	label string
	// done describes the token afterwards. Initialized means that it is erased, also
	// with an error.
	done hsm.TokenInfo
}

// onPad tells p of the PINs that are typed on the reader while they are awaited.
func (s *setup) onPad(ctx context.Context, p hsm.Prompter, t hsm.TokenInfo) error {
	defer p.Touch(ctx, hsm.TouchPrompt{Token: t, Pad: hsm.SOPIN})()
	return s.run(ctx, nil, nil)
}

// begin asks for the PINs of a blank token.
func (s *setup) begin(ctx context.Context, p hsm.Prompter) error {
	so, err := hsm.AskNewPIN(ctx, p, hsm.SOPIN, s.d.info, nil)
	if err != nil {
		return err
	}
	defer so.Zero()
	user, err := hsm.AskNewPIN(ctx, p, hsm.UserPIN, s.d.info, nil)
	if err != nil {
		return err
	}
	defer user.Zero()
	return s.run(ctx, so, user)
}

// erase asks for the SO PIN of a token that is set up, and a new user PIN.
func (s *setup) erase(ctx context.Context, p hsm.Prompter) error {
	var user *hsm.Secret
	defer func() { user.Zero() }()
	state := func() (hsm.TokenInfo, error) { return s.d.describeFor(ctx, hsm.SOPIN) }
	return hsm.AskPIN(ctx, p, hsm.SOPIN, state, func(so *hsm.Secret) error {
		if user == nil {
			info, err := s.d.describe(ctx)
			if err != nil {
				return err
			}
			if user, err = hsm.AskNewPIN(ctx, p, hsm.UserPIN, info, nil); err != nil {
				return err
			}
		}
		return s.run(ctx, so, user)
	})
}

// run sets the token up with the PINs; nil ones are typed on the reader.
func (s *setup) run(ctx context.Context, so, user *hsm.Secret) error {
	err := s.d.shut(ctx, func() error {
		return s.d.module.change(ctx, so == nil, func() error { return s.format(so, user) })
	})
	if is(err, p11.CKR_PIN_INCORRECT) && !s.done.Initialized {
		return refusedPIN(ctx, s.d, hsm.SOPIN)
	}
	return fault("initialize the token", err)
}

// format is C_InitToken and C_InitPIN.
func (s *setup) format(so, user *hsm.Secret) error {
	m, slot := s.d.module, s.d.slot
	padded := append([]byte(s.label), bytes.Repeat([]byte(" "), labelLen-len(s.label))...)
	if err := m.lib.initToken(m.ctx, slot, so, padded); err != nil {
		return err
	}
	var err error
	if s.done, err = m.token(slot); err == nil && s.done.Label != s.label {
		err = fmt.Errorf("%w: the token is in another slot now", hsm.ErrModule)
	}
	s.done.Initialized = true // the token is erased, whatever goes wrong now
	if err == nil {
		err = m.readWrite(slot, func(sh p11.SessionHandle) error {
			return m.asSO(sh, so, func() error { return m.lib.initPIN(m.ctx, sh, user) })
		})
	}
	if err != nil {
		return hint.With(fmt.Errorf("the token is erased and labeled, but has no user PIN yet: %w",
			fault("set the PIN", err)),
			"set it with `kubehsm token pin unblock` and the SO PIN")
	}
	s.done, err = m.token(slot)
	return err
}

// forget lets go of a device whose token is no more.
func (d *Driver) forget(dev *device) {
	d.mu.Lock()
	delete(d.devices, dev.id)
	d.mu.Unlock()
	dev.gate.enter(context.Background()) //nolint:errcheck // cannot fail
	defer dev.gate.leave()
	dev.drop()
	dev.closed = true
}
