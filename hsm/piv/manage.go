package piv

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
)

// manage is [managed] for what has no result but its error.
func manage(ctx context.Context, t *Token, p hsm.Prompter, f func(*applet.Session) error) error {
	_, err := managed(ctx, t, p, func(s *applet.Session) (struct{}, error) { return struct{}{}, f(s) })
	return err
}

// managed runs f with the management key proved, and asks p for whatever that takes.
func managed[T any](ctx context.Context, t *Token, p hsm.Prompter, f func(*applet.Session) (T, error)) (T, error) {
	for asked := false; ; asked = true {
		v, err := on(ctx, t.card, func(s *applet.Session) (T, error) {
			if err := t.card.provide(s, func() func() { return t.card.touching(ctx, s, p) }); err != nil {
				var none T
				return none, err
			}
			return f(s)
		})
		switch {
		case errors.Is(err, errNeedPIN) && !asked:
			if err := t.Unlock(ctx, p); err != nil {
				return v, err
			}
		case errors.Is(err, errNeedPIN), errors.Is(err, errNeedManagement):
			return askManagement(ctx, t.card, p, f)
		default:
			return v, err
		}
	}
}

// provide finds the management key without a question and proves it: the
// default one, or the one that the card keeps under the PIN. errNeedPIN and
// errNeedManagement say what to ask for.
func (c *card) provide(s *applet.Session, touch func() func()) error {
	key := s.Management
	st, err := key.State()
	if err != nil {
		return err
	}
	if st.Default || !st.Told {
		if err := key.AuthenticateDefault(st, touch); !errors.Is(err, applet.ErrWrongKey) {
			return err
		}
	}
	kept, known, err := key.Kept()
	if err != nil {
		return err
	}
	if known && !kept {
		return errNeedManagement
	}
	if state, err := s.PINs.State(); err != nil {
		return err
	} else if state.Locked {
		return errNeedManagement
	}
	if err := c.pin.prove(s); err != nil {
		return err
	}
	secret, next, err := key.KeptKeys()
	if err != nil {
		return err
	}
	defer secret.Zero()
	defer next.Zero()
	for _, each := range []*hsm.Secret{secret, next} {
		if each == nil {
			continue
		}
		err := key.Authenticate(st, each.Bytes(), touch)
		switch {
		case errors.Is(err, applet.ErrWrongKey):
			continue
		case err == nil && each == next: // A change was interrupted after the card had taken it.
			return key.Keep(next)
		}
		return err
	}
	return errNeedManagement
}

// askManagement asks for the management key in hex and runs f with it.
func askManagement[T any](ctx context.Context, c *card, p hsm.Prompter, f func(*applet.Session) (T, error)) (T, error) {
	var v T
	err := hsm.AskPIN(ctx, p, hsm.ManagementKey,
		func() (hsm.TokenInfo, error) {
			info := c.about()
			info.PIN = hsm.PINState{Retries: -1, MinLen: 32, MaxLen: 64}
			return info, ctx.Err()
		},
		func(typed *hsm.Secret) error {
			key, err := parseManagementKey(typed)
			if err != nil {
				return err
			}
			defer key.Zero()
			v, err = on(ctx, c, func(s *applet.Session) (T, error) {
				var none T
				st, err := s.Management.State()
				if err != nil {
					return none, err
				}
				err = s.Management.Authenticate(st, key.Bytes(), func() func() { return c.touching(ctx, s, p) })
				if errors.Is(err, applet.ErrWrongKey) {
					return none, &hsm.PINError{Kind: hsm.ManagementKey, Retries: -1}
				} else if err != nil {
					return none, err
				}
				return f(s)
			})
			return err
		})
	return v, err
}

// parseManagementKey reads 32, 48 or 64 hex digits.
func parseManagementKey(typed *hsm.Secret) (*hsm.Secret, error) {
	raw := bytes.TrimSpace(typed.Bytes())
	key := make([]byte, hex.DecodedLen(len(raw)))
	if _, err := hex.Decode(key, raw); err != nil || len(key) != 16 && len(key) != 24 && len(key) != 32 {
		clear(key)
		return nil, hsm.Unfit(hsm.ManagementKey, "it must have 32, 48 or 64 hex digits")
	}
	return hsm.NewSecret(key), nil
}
