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
func (d *Driver) Initialize(ctx context.Context, u hsm.URI, o hsm.InitializeOptions, p hsm.Prompter) (hsm.TokenInfo, error) {
	if p == nil {
		return hsm.TokenInfo{}, hsm.ErrPINRequired
	}
	if len(o.Label) == 0 || len(o.Label) > labelLen || !utf8.ValidString(o.Label) {
		return hsm.TokenInfo{}, hint.With(fmt.Errorf("%q is no label for a token", o.Label), "use 1 to 32 bytes of text")
	}
	f, err := d.choose(ctx, u, o.Erase)
	if err != nil {
		return hsm.TokenInfo{}, err
	}
	tok, err := d.device(f)
	if err != nil {
		return hsm.TokenInfo{}, err
	}
	dev := tok.(*token).device
	if err := dev.asking.enter(ctx); err != nil {
		return hsm.TokenInfo{}, errors.Join(err, tok.Close())
	}
	defer dev.asking.leave()
	var info hsm.TokenInfo
	work := func(so, user *hsm.Secret) error {
		info, err = dev.initialize(ctx, o.Label, so, user)
		return err
	}
	switch {
	case f.info.PIN.PINPad:
		err = onPad(ctx, p, f.info, work)
	case f.info.Initialized:
		err = dev.eraseWith(ctx, p, work)
	default:
		err = dev.initializeWith(ctx, p, work)
	}
	if err == nil || info.Initialized { // what was opened before is no more
		d.forget(dev)
		return info, err
	}
	return info, errors.Join(err, tok.Close())
}

// onPad tells p of the PINs that are typed on the reader while work waits for them.
func onPad(ctx context.Context, p hsm.Prompter, t hsm.TokenInfo, work func(so, user *hsm.Secret) error) error {
	if p != nil {
		defer p.Touch(ctx, hsm.TouchPrompt{Token: t, Pad: hsm.SOPIN})()
	}
	return work(nil, nil)
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
		return match{}, hint.With(fmt.Errorf("%s: %w", u, hsm.ErrSeveralTokens), fmt.Sprintf("name one by its slot, as 'pkcs11:slot-id=%d'", found[0].info.SlotID))
	case len(s.found) > 0:
		return match{}, hint.With(fmt.Errorf("token %q is set up already: %w", s.found[0].info.Name(), hsm.ErrOccupied), "--erase sets it up anew; all that is on it is lost")
	case len(s.failed) > 0:
		return match{}, missing(u, s.failed)
	}
	return match{}, hint.With(fmt.Errorf("%s: no token to set up: %w", u, hsm.ErrNoToken), "`kubehsm token list` shows what is there")
}

// initializeWith asks for the PINs of a blank token.
func (d *device) initializeWith(ctx context.Context, p hsm.Prompter, work func(so, user *hsm.Secret) error) error {
	so, err := askNew(ctx, hsm.SOPIN, d.info, p)
	if err != nil {
		return err
	}
	defer so.Zero()
	user, err := askNew(ctx, hsm.UserPIN, d.info, p)
	if err != nil {
		return err
	}
	defer user.Zero()
	return work(so, user)
}

// eraseWith asks for the SO PIN of a token that is set up, and a new user PIN.
func (d *device) eraseWith(ctx context.Context, p hsm.Prompter, work func(so, user *hsm.Secret) error) error {
	var user *hsm.Secret
	defer func() { user.Zero() }()
	state := func() (hsm.TokenInfo, error) { return d.state(ctx, hsm.SOPIN, p) }
	return hsm.AskPIN(ctx, p, hsm.SOPIN, state, func(so *hsm.Secret) error {
		if user == nil {
			info, err := d.describe(ctx)
			if err != nil {
				return err
			}
			if user, err = askNew(ctx, hsm.UserPIN, info, p); err != nil {
				return err
			}
		}
		return work(so, user)
	})
}

// initialize sets the token up. A description that says Initialized means that
// it is erased, also with an error.
func (d *device) initialize(ctx context.Context, label string, so, user *hsm.Secret) (info hsm.TokenInfo, err error) {
	if err := d.gate.enter(ctx); err != nil {
		return info, err
	}
	if d.closed {
		d.gate.leave()
		return info, errClosed
	}
	err = d.locate(ctx)
	if err == nil {
		err = d.logout()
	}
	if err == nil {
		err = d.exclusive(ctx, so == nil, func() error { return d.format(label, so, user, &info) })
	}
	d.gate.leave()
	if is(err, p11.CKR_PIN_INCORRECT) && !info.Initialized {
		return info, d.refused(ctx, hsm.SOPIN)
	}
	return info, fault("initialise the token", err)
}

func (d *device) exclusive(ctx context.Context, pad bool, f func() error) error {
	if pad {
		return f()
	}
	defer d.module.finishing.Begin()()
	return d.module.lock.exclusive(ctx, f)
}

// format is C_InitToken and C_InitPIN.
func (d *device) format(label string, so, user *hsm.Secret, info *hsm.TokenInfo) error {
	m := d.module
	padded := append([]byte(label), bytes.Repeat([]byte(" "), labelLen-len(label))...)
	if err := m.lib.initToken(m.ctx, d.slot, so, padded); err != nil {
		return err
	}
	var err error
	if *info, err = m.token(d.slot); err == nil && info.Label != label {
		err = fmt.Errorf("%w: the token is in another slot now", hsm.ErrModule)
	}
	info.Initialized = true // whatever else goes wrong
	if err == nil {
		err = m.session(d.slot, func(sh p11.SessionHandle) error {
			return m.asSO(sh, so, func() error { return m.lib.initPIN(m.ctx, sh, user) })
		})
	}
	if err != nil {
		return hint.With(fmt.Errorf("the token is erased and labelled, but has no user PIN yet: %w", fault("set the PIN", err)), "set it with `kubehsm token pin unblock` and the SO PIN")
	}
	*info, err = m.token(d.slot)
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
