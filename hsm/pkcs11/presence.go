//go:build cgo

package pkcs11

import (
	"context"
	"errors"
	"fmt"
	"time"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// identity tells devices apart. The label counts only where there is no serial:
// some libraries change it.
type identity struct{ module, serial, model, manufacturer, label string }

func identify(m *module, t hsm.TokenInfo) identity {
	id := identity{module: m.real, serial: t.Serial, model: t.Model, manufacturer: t.Manufacturer}
	if t.Serial == "" {
		id.label = t.Label
	}
	return id
}

// justSeen is how long the look at a token that its opening took is good for its
// first session, and its first login: nobody swaps tokens faster.
const justSeen = 300 * time.Millisecond

// presence is where a token is, and what it said of itself there.
type presence struct {
	module *module
	id     identity
	slot   uint
	info   hsm.TokenInfo
	read   time.Time // the time at which the opening read info; zero once that was used, or info was read again
	seen   time.Time // the time at which the token was last seen to be in slot
}

// locate finds the slot the token is in now and reads its description.
func (p *presence) locate(ctx context.Context) error {
	var info hsm.TokenInfo
	err := p.module.lock.shared(ctx, func() (err error) {
		info, err = p.module.token(p.slot)
		return err
	})
	if err == nil && identify(p.module, info) == p.id {
		p.info = info
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	tokens, _, err := p.module.scan(ctx)
	if lost, ok := errors.AsType[serverLost](err); ok {
		return disconnected{lost}
	}
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if identify(p.module, t) == p.id {
			p.slot, p.info = uint(t.SlotID), t
			return nil
		}
	}
	return p.removed()
}

func (p *presence) removed() error {
	return hint.With(fmt.Errorf("token %q: %w", p.info.Name(), hsm.ErrRemoved), p.info.Place().Back())
}

// there asks the slot for its token. Some libraries keep the sessions of a token that
// has gone, and just show nothing in them. Gate and lock are held.
func there(m *module, slot uint) error {
	_, err := m.ctx.GetTokenInfo(slot)
	return err
}

// unspent tells whether the PIN of that kind has as many tries left as in the state
// asked, see [hsm.CheckTries]. Gate and lock are held.
func (p *presence) unspent(kind hsm.PINKind, asked hsm.PINState) error {
	t, err := p.module.ctx.GetTokenInfo(p.slot)
	if err != nil {
		return err
	}
	if kind == hsm.SOPIN {
		return hsm.CheckTries(asked, soPINState(t))
	}
	return hsm.CheckTries(asked, pinState(t))
}

// soState reads what the token tells of its SO PIN.
func (p *presence) soState(ctx context.Context) (hsm.PINState, error) {
	var t p11.TokenInfo
	err := p.module.lock.shared(ctx, func() (err error) {
		t, err = p.module.ctx.GetTokenInfo(p.slot)
		return err
	})
	return soPINState(t), fault("describe the token", err)
}

// soPINState is [pinState] for the SO PIN.
func soPINState(t p11.TokenInfo) hsm.PINState {
	has := func(flag uint) bool { return t.Flags&flag != 0 }
	s := hsm.PINState{
		Retries: -1,
		Low:     has(p11.CKF_SO_PIN_COUNT_LOW), Final: has(p11.CKF_SO_PIN_FINAL_TRY), Locked: has(p11.CKF_SO_PIN_LOCKED),
		Default: has(p11.CKF_SO_PIN_TO_BE_CHANGED), PINPad: has(p11.CKF_PROTECTED_AUTHENTICATION_PATH),
		MinLen: length(t.MinPinLen), MaxLen: length(t.MaxPinLen),
	}
	switch {
	case s.Locked:
		s.Retries = 0
	case s.Final:
		s.Retries = 1
	}
	return s
}
