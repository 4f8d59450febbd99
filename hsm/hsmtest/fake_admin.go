package hsmtest

import (
	"context"

	"github.com/kubehsm/kubehsm/hsm"
)

// FakePUK is the PUK that an administered fake begins with, or its SO PIN if it is no card.
const FakePUK = "12345678"

// Administered is what a card can do beside what every fake can, for
// [FakeOptions.Can]. It attests nothing: no maker vouches for it.
func Administered() hsm.Abilities {
	return hsm.Abilities{Details: true, ChangePIN: true,
		ManagementKey: true, Reset: true}
}

// PIN returns the token's PIN.
func (t *FakeToken) PIN() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.options.PIN
}

// PUK returns the token's PUK, or its SO PIN.
func (t *FakeToken) PUK() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.puk
}

// admit refuses what the token says that it cannot do.
func (h *fakeHandle) admit(ctx context.Context, able bool) error {
	if !able {
		return hsm.ErrUnsupported
	}
	return h.run(ctx, OpAdminister)
}

// Details implements [hsm.Administration].
func (h *fakeHandle) Details(ctx context.Context) (hsm.Details, error) {
	if err := h.admit(ctx, h.info.Can.Details); err != nil {
		return hsm.Details{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return hsm.Details{
		PIN:           &hsm.Tries{Left: h.tries, Total: h.options.Tries},
		PUK:           &hsm.Tries{Left: h.pukTries, Total: h.options.Tries, Default: h.puk == FakePUK},
		ManagementKey: hsm.ManagementKeyState{Algorithm: hsm.AES192, Default: h.management == ""},
	}, nil
}

// askSecond verifies the PUK or the SO PIN.
func (h *fakeHandle) askSecond(ctx context.Context, kind hsm.PINKind, p hsm.Prompter) error {
	state := func() (hsm.TokenInfo, error) {
		info, err := h.describe(ctx)
		h.mu.Lock()
		defer h.mu.Unlock()
		info.PIN = hsm.PINState{Retries: h.pukTries, Locked: h.pukTries == 0, MinLen: 6, MaxLen: 8,
			Default: h.options.New && h.puk == FakePUK}
		return info, err
	}
	return hsm.AskPIN(ctx, p, kind, state, func(typed *hsm.Secret) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if string(typed.Bytes()) != h.puk {
			h.pukTries--
			return &hsm.PINError{Kind: kind, Retries: h.pukTries}
		}
		h.pukTries = h.options.Tries
		return nil
	})
}

// choose asks for a new secret and has it set.
func (h *fakeHandle) choose(ctx context.Context, kind hsm.PINKind, p hsm.Prompter, set func(string)) error {
	fresh, err := p.PIN(ctx, hsm.PINPrompt{Kind: kind, Token: h.FakeToken.Info(), New: true, Retries: -1})
	if err != nil {
		return err
	}
	defer fresh.Zero()
	if err := h.run(ctx, OpChange); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	set(string(fresh.Bytes()))
	return nil
}

func (h *fakeHandle) setPIN(pin string) {
	h.options.PIN, h.tries, h.unlocked = pin, h.options.Tries, false
}

func (h *fakeHandle) setPUK(puk string) { h.puk, h.pukTries = puk, h.options.Tries }

// ChangePIN implements [hsm.Administration].
func (h *fakeHandle) ChangePIN(ctx context.Context, kind hsm.PINKind, p hsm.Prompter) error {
	if err := h.admit(ctx, h.info.Can.ChangePIN); err != nil {
		return err
	}
	if second := h.info.Kind().Unblocks; kind == second {
		if err := h.askSecond(ctx, second, p); err != nil {
			return err
		}
		return h.choose(ctx, second, p, h.setPUK)
	}
	if err := h.ask(ctx, p); err != nil {
		return err
	}
	return h.choose(ctx, h.pinKind(), p, h.setPIN)
}

// Unblock implements [hsm.Administration].
func (h *fakeHandle) Unblock(ctx context.Context, p hsm.Prompter) error {
	if err := h.admit(ctx, h.info.Can.ChangePIN); err != nil {
		return err
	}
	if err := h.askSecond(ctx, h.info.Kind().Unblocks, p); err != nil {
		return err
	}
	return h.choose(ctx, h.pinKind(), p, h.setPIN)
}

// SetManagementKey implements [hsm.Administration].
func (h *fakeHandle) SetManagementKey(ctx context.Context, o hsm.ManagementKeyOptions, p hsm.Prompter) (*hsm.Secret,
	error) {
	if err := h.admit(ctx, h.info.Can.ManagementKey); err != nil {
		return nil, err
	}
	if o.Protect {
		if err := h.Unlock(ctx, p); err != nil {
			return nil, err
		}
	}
	if err := h.run(ctx, OpChange); err != nil {
		return nil, err
	}
	fresh := o.Key
	if fresh == nil {
		fresh = hsm.NewSecret([]byte("a management key of tests"[:24]))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.management = string(fresh.Bytes())
	return fresh, nil
}

// Reset implements [hsm.Administration].
func (h *fakeHandle) Reset(ctx context.Context, p hsm.Prompter) error {
	if err := h.admit(ctx, h.info.Can.Reset); err != nil {
		return err
	}
	yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{Question: "Reset it?", Detail: "All keys are destroyed.",
		Type: h.info.Serial})
	switch {
	case err != nil:
		return err
	case !yes:
		return hsm.ErrCancelled
	}
	if err := h.run(ctx, OpChange); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slots, h.management = nil, ""
	h.setPIN("123456")
	h.setPUK(FakePUK)
	return nil
}
