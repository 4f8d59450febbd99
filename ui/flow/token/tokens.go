// Package token holds the use cases of tokens: what there is, the PIN and the
// other secrets of a token, and the keys and certificates on it. Of enrollments it
// knows which of them a key belongs to, and has those follow it.
package token

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Tokens are the tokens that can be reached, and what is done to one as a whole.
type Tokens struct{ Env *env.Env }

// List lists every token and its slots. It asks for no PIN.
func (ts Tokens) List(ctx context.Context) ([]hsm.View, []hsm.Problem, error) {
	return ts.Env.Drivers.Views(ctx, 0)
}

// ListNow is List for those who rather see what there is: what has not
// answered soon is a problem of the kind [hsm.ErrPending], or as it was before.
func (ts Tokens) ListNow(ctx context.Context) ([]hsm.View, []hsm.Problem, error) {
	return ts.Env.Drivers.Views(ctx, soon)
}

// soon is how long healthy tokens are kept from the eye by others.
const soon = 1500 * time.Millisecond

// Only names the one token that is set up, apart from those of other keys. A card that other programs
// hold is no "none".
func (ts Tokens) Only(ctx context.Context, others ...hsm.URI) (hsm.URI, error) {
	l, err := ts.Env.Drivers.List(ctx)
	if err != nil {
		return hsm.URI{}, err
	}
	usable := slices.DeleteFunc(l.Tokens, func(t hsm.TokenInfo) bool {
		return !t.Initialized || isOf(others, t)
	})
	switch len(usable) {
	case 0:
		for _, p := range l.Problems {
			if errors.Is(p.Err, hsm.ErrBusy) {
				return hsm.URI{}, p.Err
			}
		}
		return hsm.URI{}, hint.With(hsm.ErrNoToken, "insert one; `kubehsm token list` shows what is found and what is wrong")
	case 1:
		return usable[0].URI(), nil
	}
	return hsm.URI{}, hint.With(hsm.ErrSeveralTokens, "choose one with --token; `kubehsm token list` shows their URIs")
}

// isOf tells whether a token is one of those named.
func isOf(named []hsm.URI, t hsm.TokenInfo) bool {
	return slices.ContainsFunc(named, func(u hsm.URI) bool { return u.Identity().MatchToken(t) })
}
