package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// choose returns t, which is not warm, by the key that is to sign: the one used last, if its token
// is there and its certificate in date, or else the first of which that is so. It is the only place
// where one of several keys is chosen.
func (s *targets) choose(ctx context.Context, t *target) (*target, error) {
	var spares []enrollment.Enrollment
	for _, e := range t.others {
		if e.SpareOf == t.e.Name {
			spares = append(spares, e)
		}
	}
	if len(spares) == 0 {
		return t, nil
	}
	keys := []enrollment.Enrollment{t.key}
	for _, e := range append([]enrollment.Enrollment{t.e}, spares...) {
		if e.Name != t.key.Name {
			keys = append(keys, e)
		}
	}
	var absent []string                      // tokens that are not here
	var late, broken []enrollment.Enrollment // keys whose certificates are not in date, or that cannot be found
	for _, key := range keys {
		chain, err := s.store.Certificate(key)
		if err != nil {
			s.log.Warn("key", "enrollment", key.Name, "error", err)
			continue
		}
		_, err = s.tokens.Of(key.Key).Find(ctx, key.Key, chain[0].PublicKey)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, hsm.ErrNoToken), errors.Is(err, hsm.ErrRemoved):
			absent = append(absent, key.Key.TokenOnly().Identity().String())
		case errors.Is(err, hsm.ErrNoKey), errors.Is(err, hsm.ErrKeyMismatch), errors.Is(err, hsm.ErrModule):
			broken = append(broken, key)
		case (&target{key: key, chain: chain}).inDate(time.Now()) != nil:
			late = append(late, key)
		default: // what else is wrong is told when it signs in
			return s.turnTo(t, key)
		}
	}
	switch {
	case len(late) > 0: // which is told when it is used
		return s.turnTo(t, late[0])
	case len(broken) > 0:
		return s.turnTo(t, broken[0])
	case len(absent) > 0:
		return nil, hint.With(fmt.Errorf("%s: none of its tokens is here: %w", t.e.Name, hsm.ErrNoToken),
			"insert one of them: "+strings.Join(absent, ", "))
	}
	return t, nil
}

// turnTo has the enrollment of t served by the key of by.
func (s *targets) turnTo(t *target, by enrollment.Enrollment) (*target, error) {
	if t.key.Name == by.Name {
		return t, nil
	}
	fresh, err := s.load(t.e.Name, &by)
	if err != nil {
		return nil, err
	}
	s.log.Info("another key signs from now on", "enrollment", t.e.Name, "key", by.Name)
	return s.replace(t.e.Name, s.current(t.e.Name), fresh), nil
}

// usedLast notes which key of the enrollment was used, where there is a choice.
func (s *targets) usedLast(t *target) {
	if err := s.store.NoteUsed(t.e.Name, t.key.Name); err != nil {
		s.log.Warn("note the key used last", "enrollment", t.e.Name, "error", err)
	}
}
