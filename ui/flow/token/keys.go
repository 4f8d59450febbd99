package token

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Keys are the keys and certificates on tokens.
type Keys struct{ Env *env.Env }

func (k Keys) tokens() Tokens { return Tokens(k) }

// Slot finds the one slot that u names.
func (k Keys) Slot(ctx context.Context, u hsm.URI) (hsm.Slot, error) {
	t, err := k.Env.Drivers.Open(ctx, u)
	if err != nil {
		return hsm.Slot{}, err
	}
	defer t.Close()
	return t.Slot(ctx, u)
}

// Certificate returns the certificate in the slot that u names.
func (k Keys) Certificate(ctx context.Context, u hsm.URI) (*x509.Certificate, error) {
	s, err := k.Slot(ctx, u)
	if err != nil {
		return nil, err
	}
	if s.Certificate == nil {
		return nil, hint.With(fmt.Errorf("%s: %w", s.URI, hsm.ErrNoCertificate),
			"`kubehsm csr create` asks a cluster for one")
	}
	return s.Certificate, nil
}

// Makes refuses a key that the token which u names says it cannot make, before anybody is
// asked for anything.
func (k Keys) Makes(ctx context.Context, u hsm.URI, o hsm.GenerateOptions) error {
	if !u.Kind().HasSlots() {
		return nil // the library says it when it is asked
	}
	return k.tokens().With(ctx, u, func(t hsm.Token) error {
		info, err := t.Info(ctx)
		if err != nil {
			return err
		}
		return info.Can.Makes(o)
	})
}

// Generate makes a key pair on the token that u names.
func (k Keys) Generate(ctx context.Context, u hsm.URI, o hsm.GenerateOptions, p hsm.Prompter) (hsm.Slot, error) {
	t, err := k.Env.Drivers.Open(ctx, u)
	if err != nil {
		return hsm.Slot{}, err
	}
	defer t.Close()
	return t.Generate(ctx, o, ask.With(p, hsm.Purpose{Action: "generate a key"}))
}

// Delete destroys the key that u names, and its certificate. What l tells is
// what was confirmed: another key there by now is left alone.
func (k Keys) Delete(ctx context.Context, u hsm.URI, l Loss, p hsm.Prompter) error {
	p = ask.With(p, hsm.Purpose{Action: "delete a key"})
	return k.tokens().With(ctx, u, func(t hsm.Token) error {
		if err := unchanged(ctx, t, u, l, p); err != nil {
			return err
		}
		if err := t.Delete(ctx, u, p); err != nil {
			return err
		}
		return k.tokens().forget(l, l.Token.URI())
	})
}

// unchanged checks that the slot is as it was shown. What was found unlocked is looked at
// unlocked, see [Keys.Find].
func unchanged(ctx context.Context, t hsm.Token, u hsm.URI, l Loss, p hsm.Prompter) error {
	shown := l.Slots[0]
	if shown.Half != "" && u.Kind().Hides {
		if err := t.Unlock(ctx, p); err != nil {
			return err
		}
	}
	now, err := t.Slot(ctx, u)
	if err != nil {
		return err
	}
	same := now.Half == shown.Half && (now.Key == nil) == (shown.Key == nil) &&
		(now.Certificate == nil) == (shown.Certificate == nil) &&
		slices.EqualFunc(now.Older, shown.Older, (*x509.Certificate).Equal)
	if same && now.Key != nil && now.Key.Public != nil {
		same = hsm.SameKey(now.Key.Public, shown.Key.Public)
	}
	if same && now.Certificate != nil {
		same = now.Certificate.Equal(shown.Certificate)
	}
	if !same {
		return fmt.Errorf("%s: %w: it was changed meanwhile; nothing was deleted", u, hsm.ErrKeyMismatch)
	}
	return nil
}
