package piv

import (
	"context"
	"errors"

	"github.com/kubehsm/kubehsm/hsm"
)

// padded returns a PIN or PUK as the card wants it: 8 bytes, filled with FF
// (SP 800-73-4 part 2 section 2.4.3). To be cleared.
func padded(secret *hsm.Secret) []byte {
	b := make([]byte, maxPIN)
	for i := copy(b, secret.Bytes()); i < maxPIN; i++ {
		b[i] = 0xff
	}
	return b
}

// verify proves the PIN to the card. A refusal is a [*hsm.PINError].
func (s *session) verify(pin *hsm.Secret) error {
	data := padded(pin)
	defer clear(data)
	_, err := s.send(command{ins: insVerify, p2: refPIN, data: data})
	if err == nil {
		s.verified = true
	}
	return pinError(hsm.PIVPIN, err)
}

// pinError turns a status that counts tries into a [*hsm.PINError].
func pinError(kind hsm.PINKind, err error) error {
	if n, ok := triesLeft(err); ok {
		return &hsm.PINError{Kind: kind, Retries: n}
	}
	return err
}

// Unlock implements [hsm.Token].
func (t *Token) Unlock(ctx context.Context, p hsm.Prompter) error {
	select {
	case t.asking <- struct{}{}:
		defer func() { <-t.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if t.Unlocked() { // somebody else was asked meanwhile
		return ctx.Err()
	}
	var asked hsm.TokenInfo
	return hsm.AskPIN(ctx, p, hsm.PIVPIN,
		func() (_ hsm.TokenInfo, err error) {
			asked, err = t.Info(ctx)
			return asked, err
		},
		func(pin *hsm.Secret) error {
			_, err := do(ctx, t, func(s *session) (struct{}, error) {
				if err := s.unspent(hsm.PIVPIN, asked.PIN); err != nil {
					return struct{}{}, err
				}
				return struct{}{}, s.verify(pin)
			})
			if err == nil {
				t.hold(pin)
			}
			return err
		})
}

// unspent tells whether PIN or PUK has as many tries left as in the state asked, see
// [hsm.CheckTries].
func (s *session) unspent(kind hsm.PINKind, asked hsm.PINState) error {
	now := hsm.PINState{Retries: -1}
	var err error
	if kind != hsm.PUK {
		now, err = s.pinState()
	} else if m, merr := s.metadata(refPUK); merr == nil && m.hasTries {
		now.Retries = m.left
	} else if merr != nil && !refused(merr) && !errors.Is(merr, errNoReference) {
		err = merr
	}
	if err != nil {
		return err
	}
	return hsm.CheckTries(asked, now)
}

// verifyHeld proves the PIN that was typed before. It never spends the last
// try on it, and forgets a PIN that the card refuses: both ask again
// (errNeedPIN).
func (t *Token) verifyHeld(s *session) error {
	pin := t.held()
	if pin == nil {
		return errNeedPIN
	}
	defer pin.Zero()
	state, err := s.pinState()
	if err != nil {
		return err
	}
	if state.Locked || state.Final {
		t.forget()
		return errNeedPIN
	}
	err = s.verify(pin)
	var wrong *hsm.PINError
	if errors.As(err, &wrong) {
		t.forget()
		return errNeedPIN
	}
	return err
}
