package token

import (
	"context"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Loss is what would be gone with a key, or with all keys of a token.
type Loss struct {
	Token hsm.TokenInfo
	// Slots hold what is destroyed.
	Slots []hsm.Slot
	// Enrollments are the names of those whose key is among it.
	Enrollments []string
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
		if l.Token, err = t.Info(ctx); err != nil {
			return err
		}
		if u.Slot == "" && u.Object == "" && len(u.ID) == 0 {
			l.Slots, err = t.Slots(ctx, nil)
			return err
		}
		slot, err := t.Slot(ctx, u)
		l.Slots = []hsm.Slot{slot}
		return err
	})
	if err != nil {
		return l, err
	}
	l.Enrollments, err = ts.enrolledWith(l.Slots)
	return l, err
}

// enrolledWith names the enrollments whose key is in one of the slots.
func (ts Tokens) enrolledWith(slots []hsm.Slot) ([]string, error) {
	var hashes []string
	for _, s := range slots {
		if s.Key == nil || s.Key.Public == nil {
			continue
		}
		hash, err := hsm.Fingerprint(s.Key.Public)
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, hash)
	}
	if len(hashes) == 0 {
		return nil, nil
	}
	all, err := ts.Env.Enrollments().List()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, en := range all {
		if slices.Contains(hashes, en.KeyHash) {
			names = append(names, en.Name)
		}
	}
	return names, nil
}
