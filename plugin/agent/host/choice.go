package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/consent"
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
	var late, broken []enrollment.Enrollment // keys whose certificates are not in date, or that cannot be found or used
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
		case errors.Is(err, hsm.ErrNoKey), errors.Is(err, hsm.ErrKeyMismatch), errors.Is(err, hsm.ErrModule),
			key.SpareOf != "" && !key.IsSpareOf(t.e):
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

// signAgain has the key of a spare sign its record as it has to be, and returns the target that then
// leads where the record does. The person sees what changes with the PIN, which must be typed for it.
func (s *signIns) signAgain(ctx context.Context, t *target, q auditing.Requester, u token.Use) (*target, error) {
	if u.Ask == nil {
		return nil, t.unasked("the record of " + t.key.Name + " has to be signed again for %s")
	}
	release, err := s.targets.store.Renewals().Lock(ctx, t.key.Name)
	if err != nil {
		return nil, err
	}
	defer release()
	slot, err := t.find(ctx)
	if err != nil {
		return nil, err
	}
	was, err := t.key.Version()
	if err != nil {
		return nil, err
	}
	u.Purpose = hsm.Purpose{Cluster: t.key.Name, Action: "sign the record of the spare again",
		Fields: append([]hsm.Field{{Label: "Record", Values: []string{"of the spare " + consent.Name(t.key.Name)}}},
			enrollment.Changes(was, t.again.Says())...)}
	u.Ask = ask.Typed(u.Ask)
	if k := slot.Key; k == nil || k.PIN != hsm.PINNever && k.PIN != hsm.PINAlways {
		if err := t.held.Lock(""); err != nil { // or nobody would be asked
			return nil, err
		}
		if err := t.held.Unlock(ctx, u, s.records.Unlocking(q, t.held.URI())); err != nil {
			return nil, err
		}
	}
	signer, err := t.held.Signer(ctx, u, t.key.Key, t.chain[0].PublicKey)
	if err != nil {
		return nil, err
	}
	next, err := t.again.SignedBy(signer, time.Now())
	if s.records.SignedRecord(*t.again, q, err); err != nil {
		return nil, err
	}
	if err := s.targets.store.Save(next); err != nil {
		return nil, err
	}
	by := &next
	if t.e.Name == next.Name {
		by = nil
	}
	fresh, err := s.targets.load(t.e.Name, by)
	if err != nil {
		return nil, err
	}
	return s.targets.replace(t.e.Name, s.targets.current(t.e.Name), fresh), nil
}

// usedLast notes which key of the enrollment was used, where there is a choice.
func (s *targets) usedLast(t *target) {
	if err := s.store.NoteUsed(t.e.Name, t.key.Name); err != nil {
		s.log.Warn("note the key used last", "enrollment", t.e.Name, "error", err)
	}
}
