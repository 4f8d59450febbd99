package flow

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// TokenView is a token with what is on it.
type TokenView = hsm.View

// Tokens lists every token and its slots. It asks for no PIN.
func (e *Env) Tokens(ctx context.Context) ([]TokenView, []hsm.Problem, error) {
	return e.Drivers.Views(ctx, 0)
}

// TokensNow is Tokens for those who rather see what there is: what has not
// answered soon is a problem of the kind [hsm.ErrPending], or as it was before.
func (e *Env) TokensNow(ctx context.Context) ([]TokenView, []hsm.Problem, error) {
	return e.Drivers.Views(ctx, soon)
}

// soon is how long healthy tokens are kept from the eye by others.
const soon = 1500 * time.Millisecond

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

// GenerateKey makes a key pair on the token that u names.
func (e *Env) GenerateKey(ctx context.Context, u hsm.URI, o hsm.GenerateOptions, p hsm.Prompter) (hsm.Slot, error) {
	t, err := e.Drivers.Open(ctx, u)
	if err != nil {
		return hsm.Slot{}, err
	}
	defer t.Close()
	return t.Generate(ctx, o, ask.With(p, hsm.Purpose{Action: "generate a key"}))
}
