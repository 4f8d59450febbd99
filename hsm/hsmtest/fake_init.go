package hsmtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
)

var _ hsm.Initializer = (*Fake)(nil)

// Initialize implements [hsm.Initializer] for tokens that are described as able to be
// set up.
func (f *Fake) Initialize(ctx context.Context, u hsm.URI, o hsm.InitializeOptions,
	p hsm.Prompter) (hsm.TokenInfo, error) {
	f.mu.Lock()
	at := slices.IndexFunc(f.tokens, func(t *FakeToken) bool { return t.Present() && u.MatchToken(t.Info()) })
	var h *fakeHandle
	if at >= 0 {
		h = &fakeHandle{FakeToken: f.tokens[at], fake: f}
	}
	f.mu.Unlock()
	if h == nil {
		return hsm.TokenInfo{}, fmt.Errorf("%s: %w", u, hsm.ErrNoToken)
	}
	if err := h.admit(ctx, h.info.Can.Initialize); err != nil {
		return hsm.TokenInfo{}, err
	}
	if err := h.begin(ctx, o, p); err != nil {
		return h.FakeToken.Info(), err
	}
	if err := h.choose(ctx, hsm.UserPIN, p, h.setPIN); err != nil {
		return h.FakeToken.Info(), err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slots, h.info.Initialized, h.info.Label = nil, true, o.Label
	h.options.PINNotSet = false
	return h.info, nil
}

// begin asks for the SO PIN: a new one of a blank token.
func (h *fakeHandle) begin(ctx context.Context, o hsm.InitializeOptions, p hsm.Prompter) error {
	switch {
	case !h.FakeToken.Info().Initialized:
		return h.choose(ctx, hsm.SOPIN, p, h.setPUK)
	case !o.Erase:
		return hsm.ErrOccupied
	}
	return h.askSecond(ctx, hsm.SOPIN, p)
}
