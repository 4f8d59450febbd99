package flow

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent"
)

// TokenDetails is all that a token tells of itself without a PIN.
type TokenDetails struct {
	Info hsm.TokenInfo
	// Details is nil where the token tells no more than Info.
	Details *hsm.Details
	// Slots are all places for keys, the empty ones too, where the token can
	// list them.
	Slots []hsm.Slot
}

// Token reads the details of the token that u names.
func (e *Env) Token(ctx context.Context, u hsm.URI) (TokenDetails, error) {
	var d TokenDetails
	err := e.withToken(ctx, u, func(t hsm.Token) (err error) {
		if d.Info, err = t.Info(ctx); err != nil {
			return err
		}
		if d.Details, err = details(ctx, t); err != nil {
			return err
		}
		if all, ok := t.(hsm.Inventory); ok {
			d.Slots, err = all.AllSlots(ctx)
		} else {
			d.Slots, err = t.Slots(ctx, nil)
		}
		return err
	})
	return d, err
}

func details(ctx context.Context, t hsm.Token) (*hsm.Details, error) {
	more, ok := t.(hsm.Detailer)
	if !ok {
		return nil, nil
	}
	d, err := more.Details(ctx)
	if errors.Is(err, hsm.ErrUnsupported) {
		return nil, nil
	}
	return &d, err
}

// withToken opens the token that u names for f.
func (e *Env) withToken(ctx context.Context, u hsm.URI, f func(hsm.Token) error) error {
	t, err := e.Drivers.Open(ctx, u)
	if err != nil {
		return err
	}
	defer t.Close()
	return f(t)
}

// able returns t as what can do more, or [hsm.ErrUnsupported] with a hint.
func able[T any](ctx context.Context, t hsm.Token, doing, hint string) (T, error) {
	can, ok := t.(T)
	if ok {
		return can, nil
	}
	info, err := t.Info(ctx)
	if err == nil {
		err = hsm.WithHint(fmt.Errorf("token %q: %s: %w", info.Name(), doing, hsm.ErrUnsupported), hint)
	}
	return can, err
}

// administer runs f on the token that u names, as one who is able to do it,
// and returns the token's details afterwards. The agent forgets the PIN before, so
// that it never tries an old one, and again after.
func administer[T any](ctx context.Context, e *Env, u hsm.URI, doing, hint string, f func(context.Context, T) error) (TokenDetails, error) {
	var d TokenDetails
	err := e.withToken(ctx, u, func(t hsm.Token) error {
		can, err := able[T](ctx, t, doing, hint)
		if err != nil {
			return err
		}
		if err := e.lockAgent(ctx); err != nil {
			return err
		}
		if err := f(hsm.WithPurpose(ctx, hsm.Purpose{Action: doing}), can); err != nil {
			return err
		}
		if err := e.lockAgent(ctx); err != nil {
			return err
		}
		if d.Info, err = t.Info(ctx); err == nil {
			d.Details, err = details(ctx, t)
		}
		if err != nil {
			err = fmt.Errorf("it is done, but the token could not be read afterwards: %w", err)
		}
		return err
	})
	return d, err
}

// lockAgent has a running agent forget all PINs.
func (e *Env) lockAgent(ctx context.Context) error {
	_, err := agent.Lock(ctx, e.Dirs) // the caller holds the token, and tells it
	if err != nil && !errors.Is(err, agent.ErrNotRunning) {
		return hsm.WithHint(fmt.Errorf("locking the agent: %w", err), "end it with `kubehsm agent stop`")
	}
	return nil
}

// ChangePIN changes a secret of the token: [hsm.UserPIN] (the PIV PIN on a
// card), [hsm.PUK] or [hsm.SOPIN].
func (e *Env) ChangePIN(ctx context.Context, u hsm.URI, kind hsm.PINKind, p hsm.Prompter) (TokenDetails, error) {
	return administer(ctx, e, u, "change the "+string(kind), "use the maker's tool", func(ctx context.Context, t hsm.PINChanger) error {
		return t.ChangePIN(ctx, kind, p)
	})
}

// UnblockPIN sets a new PIN with the PUK, or with the SO PIN of a PKCS#11 token.
func (e *Env) UnblockPIN(ctx context.Context, u hsm.URI, p hsm.Prompter) (TokenDetails, error) {
	return administer(ctx, e, u, "set a new PIN", "use the maker's tool", func(ctx context.Context, t hsm.PINChanger) error {
		return t.Unblock(ctx, p)
	})
}

// SetRetries sets how many wrong PINs and PUKs lock. The PUK becomes a new one.
func (e *Env) SetRetries(ctx context.Context, u hsm.URI, pin, puk int, p hsm.Prompter) (TokenDetails, error) {
	return administer(ctx, e, u, "set the number of tries", "only Yubico's PIV cards have this", func(ctx context.Context, t hsm.RetrySetter) error {
		return t.SetRetries(ctx, pin, puk, p)
	})
}

// SetManagementKey replaces the management key. With an error, a key that is not
// nil may be in force already: show it. The caller zeroes it.
func (e *Env) SetManagementKey(ctx context.Context, u hsm.URI, o hsm.ManagementKeyOptions, p hsm.Prompter) (key *hsm.Secret, d TokenDetails, err error) {
	d, err = administer(ctx, e, u, "replace the management key", "only PIV cards have one", func(ctx context.Context, t hsm.ManagementKeySetter) (err error) {
		key, err = t.SetManagementKey(ctx, o, p)
		return err
	})
	return key, d, err
}

// InitToken sets up the token that u names; see [hsm.Initializer].
func (e *Env) InitToken(ctx context.Context, u hsm.URI, o hsm.InitializeOptions, p hsm.Prompter) (hsm.TokenInfo, error) {
	for _, d := range e.Drivers {
		if d.Scheme() != u.Scheme {
			continue
		}
		can, ok := d.(hsm.Initializer)
		if !ok {
			break
		}
		if err := e.lockAgent(ctx); err != nil {
			return hsm.TokenInfo{}, err
		}
		return can.Initialize(hsm.WithPurpose(ctx, hsm.Purpose{Action: "set it up"}), u, o, p)
	}
	return hsm.TokenInfo{}, hsm.WithHint(fmt.Errorf("setting up tokens of the kind %q: %w", u.Scheme, hsm.ErrUnsupported),
		"a PIV card is ready for use; `kubehsm token reset` makes it as new")
}

// ResetToken sets the token's application to the state of a new card. Confirm is told
// what is lost and returns who is asked: the driver wants the serial typed. The
// details are those of the token as new.
func (e *Env) ResetToken(ctx context.Context, u hsm.URI, confirm func(Loss) (hsm.Prompter, error)) (TokenDetails, error) {
	u = u.TokenOnly()
	return administer(ctx, e, u, "reset the token", "`kubehsm token init --erase` does it for PKCS#11 tokens", func(ctx context.Context, t hsm.Resetter) error {
		l, err := e.Loss(ctx, u)
		if err != nil {
			return err
		}
		p, err := confirm(l)
		if err != nil {
			return err
		}
		return t.Reset(ctx, p)
	})
}
