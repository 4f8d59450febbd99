package token

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// Loss is what would be gone with a key, or with all keys of a token.
type Loss struct {
	Token hsm.TokenInfo
	// Short is the end of a long serial that a person may type to confirm the loss. No other
	// token present has the same end. It is "" if the whole serial has to be typed.
	Short string
	// Slots hold what is destroyed.
	Slots []hsm.Slot
	// Enrollments are the names of those whose key is among it, and Commands make new keys of them,
	// one each.
	Enrollments []string
	Commands    []string
}

// Serial is what has to be typed to confirm the loss: the token's serial, or
// its name if it has none.
func (l Loss) Serial() string {
	if l.Token.Serial != "" {
		return l.Token.Serial
	}
	return l.Token.Name()
}

// Deletable refuses to delete a key from a token that says it keeps its keys.
func (l Loss) Deletable() error {
	if l.Token.Can.Delete {
		return nil
	}
	return hint.With(fmt.Errorf("token %q: delete a key: %w", l.Token.Name(), hsm.ErrUnsupported),
		"overwrite it with a new one: `kubehsm key generate --overwrite`")
}

// Loss tells what is in the slot that u names or, if u names none, on the token.
func (ts Tokens) Loss(ctx context.Context, u hsm.URI) (Loss, error) {
	var l Loss
	err := ts.With(ctx, u, func(t hsm.Token) (err error) {
		l, err = ts.lossOn(ctx, t, u)
		return err
	})
	return l, err
}

func (ts Tokens) lossOn(ctx context.Context, t hsm.Token, u hsm.URI) (l Loss, err error) {
	if l.Token, err = t.Info(ctx); err != nil {
		return l, err
	}
	if u.Slot == "" && u.Object == "" && len(u.ID) == 0 {
		l.Slots, err = t.Slots(ctx, nil)
	} else {
		l.Slots = make([]hsm.Slot, 1)
		l.Slots[0], err = t.Slot(ctx, u)
	}
	if err != nil {
		return l, err
	}
	if l.Short, err = ts.short(ctx, l.Token); err != nil {
		return l, err
	}
	if l.Enrollments, err = ts.enrolledWith(l.Token, l.Slots); err != nil {
		return l, err
	}
	for _, name := range l.Enrollments {
		en, err := ts.Env.Enrollments().Load(name)
		if err != nil {
			return l, err
		}
		l.Commands = append(l.Commands, en.Restart(hsm.URI{}))
	}
	return l, nil
}

// forget records that the keys of the enrollments of l are destroyed: what says where a person stands
// then names the next step, without a look at the token, which is now known as u.
func (ts Tokens) forget(l Loss, u hsm.URI) error {
	store := enrolling.NewStore(ts.Env)
	for _, name := range l.Enrollments {
		if err := store.ForgetKey(name, u.TokenOnly()); err != nil {
			return fmt.Errorf("it is done, but not on record: %w", err)
		}
	}
	return nil
}

// short is the part of a token's serial that is typed in place of a long one.
func (ts Tokens) short(ctx context.Context, info hsm.TokenInfo) (string, error) {
	if info.ShortSerial(nil) == info.Serial {
		return "", nil
	}
	all, err := ts.Env.Drivers.List(ctx)
	if short := info.ShortSerial(all.Tokens); err == nil && short != info.Serial {
		return short, nil
	}
	return "", err
}

// shortening has a driver's own question about the token take the short form of its serial, too.
func (l Loss) shortening(p hsm.Prompter) hsm.Prompter {
	next := ask.From(p)
	return ask.Func(func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		if q.Confirm != nil && q.Confirm.Type == l.Token.Serial && l.Short != "" {
			short := *q.Confirm
			short.Short, q.Confirm = l.Short, &short
		}
		return next(ctx, q)
	})
}

// Find is [Tokens.Loss] for what is to be deleted and may be half a key. A token that shows
// nothing where u leads, and may hide it, is unlocked for it, and stays unlocked for this
// process until done is called.
func (k Keys) Find(ctx context.Context, u hsm.URI, p hsm.Prompter) (l Loss, done func() error, err error) {
	nothing := func() error { return nil }
	l, err = k.tokens().Loss(ctx, u)
	if !errors.Is(err, hsm.ErrNoKey) || !u.Kind().Hides {
		return l, nothing, err
	}
	t, err := k.Env.Drivers.Open(ctx, u)
	if err != nil {
		return l, nothing, err
	}
	if err = t.Unlock(ctx, ask.With(p, hsm.Purpose{Action: "see private keys"})); err == nil {
		l, err = k.tokens().lossOn(ctx, t, u)
	}
	if err != nil {
		return l, nothing, errors.Join(err, t.Close())
	}
	return l, t.Close, nil
}

// enrolledWith names the enrollments whose key is in one of the slots. Where nothing tells the
// public key of a private one, its place does.
func (ts Tokens) enrolledWith(token hsm.TokenInfo, slots []hsm.Slot) ([]string, error) {
	var hashes []string
	var untold []hsm.Slot
	for _, s := range slots {
		switch {
		case s.Key != nil && s.Key.Public != nil:
			hash, err := hsm.Fingerprint(s.Key.Public)
			if err != nil {
				return nil, err
			}
			hashes = append(hashes, hash)
		case s.Half == hsm.HalfPrivate:
			untold = append(untold, s)
		}
	}
	if len(hashes) == 0 && len(untold) == 0 {
		return nil, nil
	}
	enrolled, err := ts.Env.Enrollments().List()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, en := range enrolled {
		key := en.Key.Identity()
		placed := key.TokenOnly().MatchToken(token) && slices.ContainsFunc(untold, key.MatchSlot)
		if placed || slices.Contains(hashes, en.KeyHash) {
			names = append(names, en.Name)
		}
	}
	return names, nil
}
