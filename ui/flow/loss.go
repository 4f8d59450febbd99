package flow

import (
	"context"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
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

// Loss tells what is in the slot that u names or, if u names none, on the token.
func (e *Env) Loss(ctx context.Context, u hsm.URI) (Loss, error) {
	var l Loss
	err := e.withToken(ctx, u, func(t hsm.Token) (err error) {
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
	l.Enrollments, err = e.enrolledWith(l.Slots)
	return l, err
}

// enrolledWith names the enrolments whose key is in one of the slots.
func (e *Env) enrolledWith(slots []hsm.Slot) ([]string, error) {
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
	all, err := e.Enrollments().List()
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

// DeleteKey destroys the key that u names, and its certificate. What l tells is
// what was confirmed: another key there by now is left alone.
func (e *Env) DeleteKey(ctx context.Context, u hsm.URI, l Loss, p hsm.Prompter) error {
	p = ask.With(p, hsm.Purpose{Action: "delete a key"})
	return e.withToken(ctx, u, func(t hsm.Token) error {
		if err := unchanged(ctx, t, u, l); err != nil {
			return err
		}
		return t.Delete(ctx, u, p)
	})
}

// DeleteCertificate removes the certificate beside the key that u names; see
// [Env.DeleteKey] for l.
func (e *Env) DeleteCertificate(ctx context.Context, u hsm.URI, l Loss, p hsm.Prompter) error {
	p = ask.With(p, hsm.Purpose{Action: "delete a certificate"})
	return e.withToken(ctx, u, func(t hsm.Token) error {
		can := ability{func(c hsm.Abilities) bool { return c.DeleteCertificate }, "delete the certificate alone", ""}
		if err := can.check(ctx, t); err != nil {
			return err
		}
		if err := unchanged(ctx, t, u, l); err != nil {
			return err
		}
		return t.DeleteCertificate(ctx, u, p)
	})
}

// unchanged checks that the slot is as it was shown.
func unchanged(ctx context.Context, t hsm.Token, u hsm.URI, l Loss) error {
	now, err := t.Slot(ctx, u)
	if err != nil {
		return err
	}
	shown := l.Slots[0]
	same := (now.Key == nil) == (shown.Key == nil) && (now.Certificate == nil) == (shown.Certificate == nil)
	if same && now.Key != nil && now.Key.Public != nil {
		same = hsm.SameKey(now.Key.Public, shown.Key.Public)
	}
	if same && now.Certificate != nil {
		same = now.Certificate.Equal(shown.Certificate)
	}
	if !same {
		return fmt.Errorf("%s: %w: it was changed meanwhile; nothing was deleted", u, hsm.ErrKeyMismatch)
	}
	return nil
}

// MoveKey moves the key that u names to the empty PIV slot, and has the
// enrolments with that key follow; their names are returned.
func (e *Env) MoveKey(ctx context.Context, u hsm.URI, slot string, p hsm.Prompter) (moved hsm.Slot, followed []string, err error) {
	p = ask.With(p, hsm.Purpose{Action: "move a key"})
	err = e.withToken(ctx, u, func(t hsm.Token) error {
		can := ability{func(c hsm.Abilities) bool { return c.Move }, "move keys", "only PIV cards of Yubico's firmware 5.7 can"}
		if err := can.check(ctx, t); err != nil {
			return err
		}
		from, err := t.Slot(ctx, u)
		if err != nil {
			return err
		}
		to := from.URI.TokenOnly()
		to.Slot = slot
		moved, err = t.Move(ctx, from.URI, to, p)
		return err
	})
	if err != nil {
		return moved, nil, err
	}
	if followed, err = e.follow(ctx, moved); err != nil {
		err = fmt.Errorf("the key is in slot %s now, but not every enrolment knows: %w", slot, err)
	}
	return moved, followed, err
}

// follow has the enrolments with the key in a slot name that slot, and so the
// records by which they go on or are renewed. It returns the enrolments' names.
func (e *Env) follow(ctx context.Context, moved hsm.Slot) (followed []string, err error) {
	names, err := e.enrolledWith([]hsm.Slot{moved})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		en, err := e.Enrollments().Load(name)
		if err != nil {
			return followed, err
		}
		if en.Key.Scheme == moved.URI.Scheme {
			en.Key.Slot = moved.URI.Slot
			if err := e.Enrollments().Save(en); err != nil {
				return followed, err
			}
		}
		followed = append(followed, name)
	}
	return followed, e.followRecords(ctx, moved)
}

func (e *Env) followRecords(ctx context.Context, moved hsm.Slot) error {
	if moved.Key == nil || moved.Key.Public == nil {
		return nil
	}
	hash, err := hsm.Fingerprint(moved.Key.Public)
	if err != nil {
		return err
	}
	all, err := enrolling.NewStore(&e.Env).All()
	if err != nil {
		return err
	}
	for _, j := range all {
		if j.KeyHash != hash || j.Key.Scheme != moved.URI.Scheme {
			continue
		}
		if err := e.followRecord(ctx, j.Options.Name, moved.URI.Slot); err != nil {
			return err
		}
	}
	return nil
}

func (e *Env) followRecord(ctx context.Context, name, slot string) error {
	release, err := e.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	j, err := enrolling.NewStore(&e.Env).Load(name)
	if err != nil {
		return err
	}
	j.Key.Slot, j.Options.Generate.Slot = slot, slot
	if j.Options.Key.Scheme != "" {
		j.Options.Key.Slot = slot
	}
	return enrolling.NewStore(&e.Env).Save(j)
}
