package applet

import (
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// PIN and PUK lengths in bytes (SP 800-73-4 part 2 section 2.4.3).
const (
	MinPIN = 6
	MaxPIN = 8
)

// PINs are the PIN and the PUK.
type PINs struct{ c *channel }

// State reads the PIN's counter without spending a try.
func (p PINs) State() (hsm.PINState, error) {
	state := hsm.PINState{Retries: -1, MinLen: MinPIN, MaxLen: MaxPIN}
	m, err := p.c.metadata(refPIN)
	switch {
	case err == nil && m.hasTries:
		state.Retries, state.Default = m.left, m.isDefault
	case err != nil && !Refused(err) && !errors.Is(err, errNoReference):
		return state, err
	default:
		if state.Retries, err = p.tries(); err != nil {
			return state, err
		}
	}
	state.Locked = state.Retries == 0
	state.Final = state.Retries == 1
	state.Low = state.Retries >= 0 && state.Retries < 3 && (!m.hasTries || m.left < m.total)
	return state, nil
}

// tries asks for the PIN's tries with an empty VERIFY. It returns -1 if the card does not
// say, for example because the PIN is verified.
func (p PINs) tries() (int, error) {
	_, err := p.c.send(command{ins: insVerify, p2: refPIN})
	if err == nil {
		return -1, nil
	}
	if n, ok := triesLeft(err); ok {
		return n, nil
	}
	if Refused(err) {
		return -1, nil
	}
	return -1, err
}

// Counters tells the tries of PIN and PUK; nil where the card does not.
func (p PINs) Counters() (pin, puk *hsm.Tries, err error) {
	if pin, err = p.counter(refPIN); err != nil {
		return nil, nil, err
	}
	if puk, err = p.counter(refPUK); err != nil {
		return nil, nil, err
	}
	if pin == nil {
		n, err := p.tries()
		if err != nil {
			return nil, puk, err
		}
		if n >= 0 {
			pin = &hsm.Tries{Left: n}
		}
	}
	return pin, puk, nil
}

// counter reads the counter of PIN or PUK; nil if the card's metadata do not have it.
func (p PINs) counter(ref byte) (*hsm.Tries, error) {
	m, err := p.c.metadata(ref)
	switch {
	case err == nil && m.hasTries:
		return &hsm.Tries{Left: m.left, Total: m.total, Default: m.isDefault}, nil
	case err != nil && !Refused(err) && !errors.Is(err, errNoReference):
		return nil, err
	}
	return nil, nil
}

// Unspent tells whether PIN or PUK has as many tries left as in the state asked, see
// [hsm.CheckTries].
func (p PINs) Unspent(kind hsm.PINKind, asked hsm.PINState) error {
	now := hsm.PINState{Retries: -1}
	if kind == hsm.PUK {
		puk, err := p.counter(refPUK)
		if err != nil {
			return err
		}
		if puk != nil {
			now.Retries, now.Default, now.Low = puk.Left, puk.Default, puk.Left < puk.Total
		}
		return hsm.CheckTries(asked, now)
	}
	now, err := p.State()
	if err != nil {
		return err
	}
	return hsm.CheckTries(asked, now)
}

// Verified tells whether the PIN counts as proved in this session.
func (p PINs) Verified() bool { return p.c.verified }

// LeftVerified asks the card whether the PIN counts as verified, by whomever. If so,
// the session's end makes the card forget it.
func (p PINs) LeftVerified() bool {
	p.c.verified = p.c.isVerified()
	return p.c.verified
}

// Verify proves the PIN to the card. A refusal is a [*hsm.PINError].
func (p PINs) Verify(pin *hsm.Secret) error {
	data := padded(pin)
	defer clear(data)
	_, err := p.c.send(command{ins: insVerify, p2: refPIN, data: data})
	if err == nil {
		p.c.verified = true
	}
	return pinError(hsm.PIVPIN, err)
}

// Change replaces the PIN or, with kind [hsm.PUK], the PUK (CHANGE REFERENCE DATA,
// SP 800-73-4 part 2 section 3.2.2).
func (p PINs) Change(kind hsm.PINKind, old, fresh *hsm.Secret) error {
	ref := byte(refPIN)
	if kind == hsm.PUK {
		ref = refPUK
	}
	return p.exchange(insChangeReference, ref, kind, old, fresh)
}

// Unblock sets a new PIN with the PUK (RESET RETRY COUNTER, section 3.2.3).
func (p PINs) Unblock(puk, fresh *hsm.Secret) error {
	return p.exchange(insResetRetry, refPIN, hsm.PUK, puk, fresh)
}

// exchange sends an old secret and a new one.
func (p PINs) exchange(ins, ref byte, oldKind hsm.PINKind, old, fresh *hsm.Secret) error {
	a, b := padded(old), padded(fresh)
	data := append(a, b...)
	defer clear(data)
	clear(b)
	defer clear(a)
	_, err := p.c.send(command{ins: ins, p2: ref, data: data})
	if isStatus(err, swWrongData, swConditions) {
		return hint.With(fmt.Errorf("the card refuses the new value: %w: %w", hsm.ErrUnsupported, err),
			"newer cards refuse simple values: choose 6 to 8 characters without a pattern")
	}
	return pinError(oldKind, err)
}

// maxTries bounds the tries that a counter can have (one byte, Yubico).
const maxTries = 255

// block uses up all tries of PIN and PUK, with values that neither can have.
func (p PINs) block() error {
	empty := padded(nil)
	both := append(padded(nil), padded(nil)...)
	for _, cmd := range []command{
		{ins: insVerify, p2: refPIN, data: empty},
		{ins: insResetRetry, p2: refPIN, data: both},
	} {
		if err := p.exhaust(cmd); err != nil {
			return err
		}
	}
	return nil
}

func (p PINs) exhaust(cmd command) error {
	for range maxTries + 1 {
		_, err := p.c.send(cmd)
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

// padded returns a PIN or PUK as the card wants it: 8 bytes, filled with FF
// (SP 800-73-4 part 2 section 2.4.3). To be cleared.
func padded(secret *hsm.Secret) []byte {
	b := make([]byte, MaxPIN)
	for i := copy(b, secret.Bytes()); i < MaxPIN; i++ {
		b[i] = 0xff
	}
	return b
}

// pinError turns a status that counts tries into a [*hsm.PINError].
func pinError(kind hsm.PINKind, err error) error {
	if n, ok := triesLeft(err); ok {
		return &hsm.PINError{Kind: kind, Retries: n}
	}
	return err
}
