package enroll

import (
	"context"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// keyForRequest is makeKey, once it is known that its request can be filed: a key
// that nothing comes of would stand in the next one's way.
func (r *enrolment) keyForRequest(ctx context.Context) (outcome, error) {
	if err := r.refuseVain(ctx); err != nil {
		return outcome{}, err
	}
	return r.makeKey(ctx)
}

// makeKey generates the key on the token, or finds the one on record or asked for.
func (r *enrolment) makeKey(ctx context.Context) (outcome, error) {
	switch {
	case r.j.KeyHash != "":
		return r.reuseKey(ctx, r.j.Key)
	case r.j.Options.Key.Scheme != "":
		return r.reuseKey(ctx, r.j.Options.Key)
	}
	found, before, err := r.inPlace(ctx)
	if err != nil {
		return outcome{}, err
	}
	if found != nil {
		whole, err := r.isWhole(ctx, found.URI)
		if err != nil {
			return outcome{}, err
		}
		if whole {
			return r.takeKey(*found, true)
		}
	}
	r.j.Generating, r.j.Before = true, before
	if err := enrolling.NewStore(r.env).Save(r.j); err != nil {
		return outcome{}, err
	}
	slot, err := r.token.Generate(ctx, r.j.Options.Generate, r.asking("generate a key"))
	if err != nil {
		return outcome{}, err
	}
	r.pins.prove()
	return r.takeKey(slot, false)
}

// isWhole tells whether the key that an interrupted run left can sign. A
// PKCS#11 token may have got no further than the public object, which looks
// like a key as long as the token hides private ones: such a half is removed.
func (r *enrolment) isWhole(ctx context.Context, u hsm.URI) (bool, error) {
	if !r.info.Kind().Hides {
		return true, nil
	}
	if err := r.token.Unlock(ctx, r.asking("generate a key")); err != nil {
		return false, err
	}
	r.pins.prove()
	slot, err := r.token.Slot(ctx, u)
	if err != nil || slot.Key != nil {
		return err == nil, err
	}
	if err := r.token.Delete(ctx, slot.URI, r.asking("generate a key")); err != nil {
		return false, fmt.Errorf("remove the half-made key of an interrupted run: %w", err)
	}
	r.note("an interrupted run left half a key on the token; it was removed")
	return false, nil
}

// reuseKey checks that u names a usable key, and the same one as before if one
// is on record.
func (r *enrolment) reuseKey(ctx context.Context, u hsm.URI) (outcome, error) {
	slot, err := r.token.Slot(ctx, u)
	if err != nil {
		return outcome{}, err
	}
	return r.takeKey(slot, true)
}

func (r *enrolment) takeKey(slot hsm.Slot, reused bool) (outcome, error) {
	if slot.Key == nil {
		return outcome{}, hsm.WithHint(fmt.Errorf("%s holds no key: %w", slot.URI, hsm.ErrNoKey),
			"`kubehsm key list` shows the keys there are")
	}
	if slot.Problem != "" {
		return outcome{}, fmt.Errorf("%s cannot be used: %s", slot.URI, slot.Problem)
	}
	if slot.Key.Extractable {
		return outcome{}, hsm.WithHint(fmt.Errorf("the private key %s can be read out of the token", slot.URI),
			"generate a new key; leave --key out")
	}
	hash, err := hsm.Fingerprint(slot.Key.Public)
	if err != nil {
		return outcome{}, err
	}
	if r.j.KeyHash != "" && r.j.KeyHash != hash {
		return outcome{}, hsm.Hintf(fmt.Errorf("%s: %w", slot.URI, hsm.ErrKeyMismatch),
			"the key was replaced since; start anew with --restart or another --name")
	}
	r.public = slot.Key.Public
	r.j.Key, r.j.KeyHash, r.j.Generating = slot.URI, hash, false
	return outcome{message: fmt.Sprintf("%s, %s", slot.Key.Algorithm, shortHash(hash)), reused: reused}, nil
}

// inPlace looks at what is where the new key would go. It returns the key that
// an earlier run generated but did not live to record, and the fingerprints of
// all keys there. A key that is not ours is an error unless it may be
// overwritten: labels are how people tell keys apart.
func (r *enrolment) inPlace(ctx context.Context) (ours *hsm.Slot, hashes []string, err error) {
	slots, err := r.token.Slots(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	o := r.j.Options.Generate
	for _, s := range slots {
		here, place := s.Label == o.Label, s.Label
		if r.info.Kind().HasSlots() {
			here, place = s.ID == o.Slot, s.ID
		}
		if !here || s.Key == nil {
			continue
		}
		hash, err := hsm.Fingerprint(s.Key.Public)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case r.j.Generating && !slices.Contains(r.j.Before, hash):
			return &s, nil, nil
		case !o.Overwrite:
			return nil, nil, hsm.Hintf(fmt.Errorf("token %q has a key %q already: %w", r.info.Name(), place, hsm.ErrOccupied),
				"reuse it with --key '%s', or choose another --name", s.URI)
		}
		hashes = append(hashes, hash)
	}
	return nil, hashes, nil
}

// shortHash is enough of a fingerprint for eyes.
func shortHash(hash string) string {
	if len(hash) < 16 {
		return "SHA256:" + hash
	}
	return "SHA256:" + hash[:16] + "…"
}
