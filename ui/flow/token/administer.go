package token

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Details is all that a token tells of itself without a PIN.
type Details struct {
	Info hsm.TokenInfo
	// Details is nil where the token tells no more than Info.
	Details *hsm.Details
	// Slots are all places for keys, the empty ones too, where the token can
	// list them.
	Slots []hsm.Slot
	// Renamed is set if a reset has just given the card another identity.
	Renamed *Renamed
	// Commands make new keys of the enrollments whose keys a reset has just destroyed, one each.
	Commands []string
}

// Details reads the details of the token that u names.
func (ts Tokens) Details(ctx context.Context, u hsm.URI) (Details, error) {
	var d Details
	err := ts.With(ctx, u, func(t hsm.Token) (err error) {
		if d.Info, err = t.Info(ctx); err != nil {
			return err
		}
		if d.Details, err = ReadDetails(ctx, t); err != nil {
			return err
		}
		d.Slots, err = t.AllSlots(ctx)
		return err
	})
	return d, err
}

// ReadDetails reads what t tells beyond its info; nil if it tells no more.
func ReadDetails(ctx context.Context, t hsm.Token) (*hsm.Details, error) {
	d, err := t.Details(ctx)
	if errors.Is(err, hsm.ErrUnsupported) {
		return nil, nil
	}
	return &d, err
}

// With opens the token that u names for f.
func (ts Tokens) With(ctx context.Context, u hsm.URI, f func(hsm.Token) error) error {
	t, err := ts.Env.Drivers.Open(ctx, u)
	if err != nil {
		return err
	}
	defer t.Close()
	return f(t)
}

// ability says what somebody wants of a token, and how to do without.
type ability struct {
	of          func(hsm.Abilities) bool
	doing, hint string
}

// check refuses what a token says that it cannot do.
func (a ability) check(ctx context.Context, t hsm.Token) error {
	info, err := t.Info(ctx)
	if err == nil && !a.of(info.Can) {
		err = hinting.With(fmt.Errorf("token %q: %s: %w", info.Name(), a.doing, hsm.ErrUnsupported), a.hint)
	}
	return err
}

// asking has p asked for it.
func (a ability) asking(p hsm.Prompter) hsm.Prompter {
	return ask.With(p, hsm.Purpose{Action: a.doing})
}

// administer runs f on the token that u names, if that is able to do it, and
// returns the token's details afterwards. The agent forgets the PIN before, so that
// it never tries an old one, and again after.
func (ts Tokens) administer(ctx context.Context, u hsm.URI, a ability,
	f func(context.Context, hsm.Token) error) (Details, error) {
	var d Details
	err := ts.With(ctx, u, func(t hsm.Token) error {
		if err := a.check(ctx, t); err != nil {
			return err
		}
		if err := LockAgent(ctx, ts.Env); err != nil {
			return err
		}
		if err := f(ctx, t); err != nil {
			return err
		}
		if err := LockAgent(ctx, ts.Env); err != nil {
			return err
		}
		var err error
		if d.Info, err = t.Info(ctx); err == nil {
			d.Details, err = ReadDetails(ctx, t)
		}
		if err != nil {
			err = fmt.Errorf("it is done, but the token could not be read afterwards: %w", err)
		}
		return err
	})
	return d, err
}

// LockAgent has a running agent forget all PINs.
func LockAgent(ctx context.Context, e *env.Env) error {
	_, err := client.Lock(ctx, e.Dirs, e.WaitingOf(ctx)) // the caller holds the token, and tells it
	if err != nil && !errors.Is(err, client.ErrNotRunning) {
		return hinting.With(fmt.Errorf("locking the agent: %w", err), "end it with `kubehsm agent stop`")
	}
	return nil
}

// ChangePIN changes a secret of the token: [hsm.UserPIN] (the PIV PIN on a
// card), [hsm.PUK] or [hsm.SOPIN].
func (ts Tokens) ChangePIN(ctx context.Context, u hsm.URI, kind hsm.PINKind, p hsm.Prompter) (Details, error) {
	can := ability{func(c hsm.Abilities) bool { return c.ChangePIN }, "change the " + string(kind), "use the maker's tool"}
	return ts.administer(ctx, u, can, func(ctx context.Context, t hsm.Token) error {
		return t.ChangePIN(ctx, kind, can.asking(p))
	})
}

// UnblockPIN sets a new PIN with the PUK, or with the SO PIN of a PKCS#11 token.
func (ts Tokens) UnblockPIN(ctx context.Context, u hsm.URI, p hsm.Prompter) (Details, error) {
	can := ability{func(c hsm.Abilities) bool { return c.ChangePIN }, "set a new PIN", "use the maker's tool"}
	return ts.administer(ctx, u, can, func(ctx context.Context, t hsm.Token) error {
		return t.Unblock(ctx, can.asking(p))
	})
}

// SetManagementKey replaces the management key. With an error, a key that is not
// nil may be in force already: show it. The caller zeroes it.
func (ts Tokens) SetManagementKey(ctx context.Context, u hsm.URI, o hsm.ManagementKeyOptions,
	p hsm.Prompter) (key *hsm.Secret, d Details, err error) {
	can := ability{func(c hsm.Abilities) bool { return c.ManagementKey }, "replace the management key",
		"only PIV cards have one"}
	d, err = ts.administer(ctx, u, can, func(ctx context.Context, t hsm.Token) (err error) {
		key, err = t.SetManagementKey(ctx, o, can.asking(p))
		return err
	})
	return key, d, err
}

// Init sets up the token that u names; see [hsm.Initializer].
func (ts Tokens) Init(ctx context.Context, u hsm.URI, o hsm.InitializeOptions, p hsm.Prompter) (hsm.TokenInfo, error) {
	for _, d := range ts.Env.Drivers {
		if d.Scheme() != u.Scheme {
			continue
		}
		can, ok := d.(hsm.Initializer)
		if !ok {
			break
		}
		if err := LockAgent(ctx, ts.Env); err != nil {
			return hsm.TokenInfo{}, err
		}
		info, err := can.Initialize(ctx, u, o, ask.With(p, hsm.Purpose{Action: "initialize it"}))
		if !u.Kind().HasSlots() || !errors.Is(err, hsm.ErrUnsupported) { // cards alone are ready as they are
			return info, err
		}
	}
	return hsm.TokenInfo{}, hinting.With(
		fmt.Errorf("initializing tokens of the kind %q: %w", u.Scheme, hsm.ErrUnsupported),
		"a PIV card is ready for use; `kubehsm token reset` resets it",
	)
}

// Reset sets the token's application to the state of a new card. Confirm is told
// what is lost and returns who is asked: the driver wants the serial typed. The
// details are those of the token as new, and say if it is another one by its identity.
func (ts Tokens) Reset(ctx context.Context, u hsm.URI, confirm func(Loss) (hsm.Prompter, error)) (Details, error) {
	u = u.TokenOnly()
	can := ability{func(c hsm.Abilities) bool { return c.Reset }, "reset the token",
		"`kubehsm token init --erase` does it for PKCS#11 tokens"}
	var lost Loss
	d, err := ts.administer(ctx, u, can, func(ctx context.Context, t hsm.Token) error {
		l, err := ts.Loss(ctx, u)
		if err != nil {
			return err
		}
		lost = l
		p, err := confirm(l)
		if err != nil {
			return err
		}
		return t.Reset(ctx, l.shortening(can.asking(p)))
	})
	if err != nil {
		return d, err
	}
	if d.Renamed, err = ts.renamed(lost.Token, d.Info); err == nil {
		err = ts.forget(lost, d.Info.URI())
	}
	if d.Renamed == nil {
		d.Commands = lost.Commands
	}
	return d, err
}
