package piv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// SetManagementKey implements [hsm.Administration]. A key to be protected
// is written to the card before it is put in force, so that a card that fails
// between the two is never left with a key that nobody has.
func (t *Token) SetManagementKey(ctx context.Context, o hsm.ManagementKeyOptions, p hsm.Prompter) (*hsm.Secret, error) {
	if o.Protect {
		if err := t.Unlock(ctx, p); err != nil {
			return nil, err
		}
	}
	var key *hsm.Secret
	_, err := manage(ctx, t, p, func(s *session) (struct{}, error) {
		st, err := s.managementState()
		if err != nil {
			return struct{}{}, err
		}
		code, n, err := s.newCipher(o.Algorithm, st)
		if err != nil {
			return struct{}{}, err
		}
		fresh, err := newManagementKey(o.Key, n)
		if err != nil {
			return struct{}{}, err
		}
		// A key in force that nobody was told of would be the end of the card.
		if err := s.commit(); err != nil {
			fresh.Zero()
			return struct{}{}, err
		}
		if err := t.putProtected(s, o.Protect, fresh); err != nil {
			fresh.Zero()
			return struct{}{}, err
		}
		key = fresh
		return struct{}{}, s.replaceKey(code, fresh, o)
	})
	return key, err
}

// newCipher picks the cipher of the new key.
func (s *session) newCipher(a hsm.ManagementAlgorithm, st managementState) (code byte, length int, err error) {
	if a == "" {
		a = hsm.TDES
		if st.code != 0 {
			a = managementName(st.code)
		}
	}
	code, length = managementCode(a)
	switch v := s.id.version; {
	case length == 0:
		return 0, 0, fmt.Errorf("management keys of type %q: %w", a, hsm.ErrUnsupported)
	case a != hsm.TDES && v.known() && !v.since(5, 4):
		return 0, 0, hint.With(fmt.Errorf("management keys of type %s: %w: firmware %s, needs 5.4", a, hsm.ErrUnsupported, v), "use 3des")
	}
	return code, length, nil
}

func newManagementKey(given *hsm.Secret, n int) (*hsm.Secret, error) {
	if given == nil {
		b := make([]byte, n)
		rand.Read(b) // never fails
		return hsm.NewSecret(b), nil
	}
	if given.Len() != n {
		return nil, fmt.Errorf("%w: the management key has %d bytes, want %d", hsm.ErrPINInvalid, given.Len(), n)
	}
	return given.Clone(), nil
}

// putProtected writes the new key where only the PIN reads it, if it shall be
// protected.
func (t *Token) putProtected(s *session, yes bool, key *hsm.Secret) error {
	if !yes {
		return nil
	}
	if !s.verified {
		if err := t.verifyHeld(s); err != nil {
			return err
		}
	}
	old, err := s.getObject(objectPrinted)
	if err != nil && !refused(err) {
		return err
	}
	defer clear(old)
	data := protect(old, key)
	defer clear(data)
	return s.putObject(objectPrinted, data)
}

// replaceKey puts the key in force and sets ykman's flag, or clears it and the
// copy of the former key.
func (s *session) replaceKey(code byte, key *hsm.Secret, o hsm.ManagementKeyOptions) error {
	p2 := byte(0xff)
	if o.Touch {
		p2 = 0xfe
	}
	data := append([]byte{code, refManagement, byte(key.Len())}, key.Bytes()...)
	defer clear(data)
	if _, err := s.send(command{ins: insSetManagement, p1: 0xff, p2: p2, data: data}); err != nil {
		if unknownCommand(err) {
			return fmt.Errorf("setting the management key: %w", hsm.ErrUnsupported)
		}
		return hint.With(fmt.Errorf("setting the management key: %w", err), "the old key is likely still in force; keep the new one too until one of them worked")
	}
	flags, err := s.pivman()
	if err == nil && (flags.known || o.Protect) {
		err = s.putObject(objectPivman, flags.with(o.Protect))
	}
	if err == nil && !o.Protect && flags.stored {
		// The former key is of no use any more; nothing depends on its copy.
		err = s.putObject(objectPrinted, protect(nil, nil))
	}
	if err != nil {
		return hint.With(fmt.Errorf("the new management key is in force, but ykman's note of it was not written: %w", err), "keep the new key safe")
	}
	return nil
}

// Reset implements [hsm.Administration]: it locks PIN and PUK on purpose, which the
// card wants first, and sets PIV to the state of a new card. A card that does not
// tell a firmware version is left alone: locked and without RESET it would be
// lost.
func (t *Token) Reset(ctx context.Context, p hsm.Prompter) error {
	if p == nil {
		return hsm.ErrNoTerminal
	}
	info := t.about()
	if info.Firmware == "" {
		return fmt.Errorf("resetting a card of unknown make: %w", hsm.ErrUnsupported)
	}
	yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{
		Detail: "All PIV keys and certificates of the token are destroyed for good. PIN, PUK and management key become the default ones.\n" +
			"What remains: the attestation key, and everything outside PIV (FIDO, OpenPGP, OTP, OATH).",
		Question: "Reset the PIV application of " + info.Name() + "?", Type: info.Serial,
	})
	if err != nil {
		return err
	}
	if !yes {
		return fmt.Errorf("not reset: %w", hsm.ErrCancelled)
	}
	t.forget()
	_, err = do(ctx, t, func(s *session) (struct{}, error) { return struct{}{}, s.reset() })
	return err
}

// maxTries bounds the tries that a counter can have (one byte, Yubico).
const maxTries = 255

// reset locks PIN and PUK with values that no PIN can have (nothing but
// filling) and sends RESET.
func (s *session) reset() error {
	if err := s.commit(); err != nil { // a card that is half locked helps nobody
		return err
	}
	empty := padded(nil)
	both := append(padded(nil), padded(nil)...)
	for _, c := range []command{
		{ins: insVerify, p2: refPIN, data: empty},
		{ins: insResetRetry, p2: refPIN, data: both},
	} {
		if err := s.exhaust(c); err != nil {
			return err
		}
	}
	if _, err := s.send(command{ins: insReset}); err != nil {
		return hint.With(fmt.Errorf("PIN and PUK are blocked, but the card was not reset: %w", err), "try the reset again")
	}
	s.verified, s.managed = false, false
	return nil
}

func (s *session) exhaust(c command) error {
	for range maxTries + 1 {
		_, err := s.send(c)
		n, counted := triesLeft(err)
		switch {
		case err == nil:
			return errors.New("the card accepted an empty secret")
		case counted && n == 0:
			return nil
		case !counted:
			return fmt.Errorf("locking before the reset: %w", err)
		}
	}
	return errors.New("the card does not lock")
}
