package token

import (
	"context"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// Move moves the key that u names to the empty PIV slot, and has the
// enrollments with that key follow; their names are returned.
func (k Keys) Move(ctx context.Context, u hsm.URI, slot string, p hsm.Prompter) (moved hsm.Slot, followed []string,
	err error) {
	p = ask.With(p, hsm.Purpose{Action: "move a key"})
	err = k.tokens().With(ctx, u, func(t hsm.Token) error {
		can := ability{func(c hsm.Abilities) bool { return c.Move }, "move keys",
			"only PIV cards that know Yubico's MOVE KEY can (YubiKeys: from firmware 5.7 on)"}
		if err := can.check(ctx, t); err != nil {
			return err
		}
		from, err := t.Slot(ctx, u)
		if err != nil {
			return err
		}
		to := from.URI.TokenOnly()
		to.Slot = slot
		names, err := k.tokens().enrolledWith(hsm.TokenInfo{}, []hsm.Slot{from})
		if err != nil {
			return err
		}
		for _, name := range names { // nothing but the slot of what the key has signed changes
			en, err := k.Env.Enrollments().Load(name)
			if err == nil {
				_, err = en.Version()
			}
			if err != nil {
				return err
			}
		}
		if len(names) > 0 { // the key signs their records then
			if err := t.Unlock(ctx, p); err != nil {
				return err
			}
		}
		if moved, err = t.Move(ctx, from.URI, to, p); err != nil {
			return err
		}
		if followed, err = k.follow(ctx, t, moved, p); err != nil {
			err = fmt.Errorf("the key is in slot %s now, but not every enrollment knows: %w", slot, err)
		}
		return err
	})
	return moved, followed, err
}

// follow has the enrollments with the key in a slot name that slot, for which the key signs, and so the
// records by which they go on or are renewed. It returns the enrollments' names.
func (k Keys) follow(ctx context.Context, t hsm.Token, moved hsm.Slot, p hsm.Prompter) (followed []string, err error) {
	names, err := k.tokens().enrolledWith(hsm.TokenInfo{}, []hsm.Slot{moved})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		en, err := k.Env.Enrollments().Load(name)
		if err != nil {
			return followed, err
		}
		if en.Key.Scheme == moved.URI.Scheme {
			en.Key.Slot = moved.URI.Slot
			key, err := t.Signer(ctx, moved.URI, moved.Key.Public, p)
			if err == nil {
				en, err = en.SignedBy(key, time.Now())
			}
			if err != nil {
				return followed, err
			}
			if err := k.Env.Enrollments().Save(en); err != nil {
				return followed, err
			}
		}
		followed = append(followed, name)
	}
	return followed, k.followRecords(ctx, moved)
}

func (k Keys) followRecords(ctx context.Context, moved hsm.Slot) error {
	if moved.Key == nil || moved.Key.Public == nil {
		return nil
	}
	hash, err := hsm.Fingerprint(moved.Key.Public)
	if err != nil {
		return err
	}
	all, err := enrolling.NewStore(k.Env).All()
	if err != nil {
		return err
	}
	for _, j := range all {
		if j.Request.KeyHash != hash || j.Request.Key.Scheme != moved.URI.Scheme {
			continue
		}
		if err := k.followRecord(ctx, j.Options.Name, moved.URI.Slot); err != nil {
			return err
		}
	}
	return nil
}

func (k Keys) followRecord(ctx context.Context, name, slot string) error {
	release, err := k.Env.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	j, err := enrolling.NewStore(k.Env).Load(name)
	if err != nil {
		return err
	}
	j.Request.Key.Slot, j.Options.Generate.Slot = slot, slot
	if j.Options.Key.Scheme != "" {
		j.Options.Key.Slot = slot
	}
	return enrolling.NewStore(k.Env).Save(j)
}
