package flow

import (
	"context"
	"fmt"

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
