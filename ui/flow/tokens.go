package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
)

// TokenView is a token with what is on it.
type TokenView struct {
	Info  hsm.TokenInfo
	Slots []hsm.Slot
	// Err says why the slots could not be read.
	Err error
}

// Tokens lists every token and its slots. It asks for no PIN.
func (e *Env) Tokens(ctx context.Context) ([]TokenView, []hsm.Problem, error) {
	listing, err := e.Drivers.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	views := make([]TokenView, 0, len(listing.Tokens))
	for _, info := range listing.Tokens {
		v := TokenView{Info: info}
		if info.Initialized {
			v.Slots, v.Err = e.slots(ctx, info.URI())
		}
		views = append(views, v)
	}
	return views, listing.Problems, ctx.Err()
}

// OnlyToken names the one token that is set up. A card that other programs hold
// is no "none".
func (e *Env) OnlyToken(ctx context.Context) (hsm.URI, error) {
	l, err := e.Drivers.List(ctx)
	if err != nil {
		return hsm.URI{}, err
	}
	usable := slices.DeleteFunc(l.Tokens, func(t hsm.TokenInfo) bool { return !t.Initialized })
	switch len(usable) {
	case 0:
		for _, p := range l.Problems {
			if errors.Is(p.Err, hsm.ErrBusy) {
				return hsm.URI{}, p.Err
			}
		}
		return hsm.URI{}, hsm.WithHint(hsm.ErrNoToken, "insert one; `kubehsm token list` shows what is found and what is wrong")
	case 1:
		return usable[0].URI(), nil
	}
	return hsm.URI{}, hsm.WithHint(hsm.ErrSeveralTokens, "choose one with --token; `kubehsm token list` shows their URIs")
}

func (e *Env) slots(ctx context.Context, u hsm.URI) ([]hsm.Slot, error) {
	t, err := e.Drivers.Open(ctx, u)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	slots, err := t.Slots(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("read token %q: %w", u.String(), err)
	}
	return slots, nil
}

// GenerateKey makes a key pair on the token that u names.
func (e *Env) GenerateKey(ctx context.Context, u hsm.URI, o hsm.GenerateOptions, p hsm.Prompter) (hsm.Slot, error) {
	t, err := e.Drivers.Open(ctx, u)
	if err != nil {
		return hsm.Slot{}, err
	}
	defer t.Close()
	ctx = hsm.WithPurpose(ctx, hsm.Purpose{Action: "generate a key"})
	return t.Generate(ctx, o, p)
}
