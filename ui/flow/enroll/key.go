package enroll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// keyForRequest makes the key, once it is known that its request can be filed: a key
// that nothing comes of would stand in the next one's way.
func (r *attempt) keyForRequest(ctx context.Context) (outcome, error) {
	if r.record.Options.Adopt {
		return r.adopt(ctx)
	}
	if err := r.preflight(ctx); err != nil {
		return outcome{}, err
	}
	return keyMaker{r}.make(ctx)
}

// keyRefusal is the error for a key that j would have made, and that the token says it
// cannot make.
func keyRefusal(j *enrolling.Progress, token hsm.TokenInfo) error {
	o := j.Options
	if j.Request.KeyHash != "" || o.Key.Scheme != "" || !token.Kind().HasSlots() {
		return nil // A key is there, or the library says it when asked.
	}
	o.Generate.Algorithm = cmp.Or(o.Generate.Algorithm, hsm.ECDSAP256)
	return token.Can.Makes(o.Generate)
}

// preferTouch has a key that is still to be made want a touch, which lasts for a moment, where
// the person who goes through the enrollment has left that open and the token can do so.
func preferTouch(j *enrolling.Progress, guided bool, token hsm.TokenInfo) {
	o := &j.Options
	if j.Generating || j.Request.KeyHash != "" || o.Key.Scheme != "" {
		return // the key has its policy
	}
	if guided && o.Generate.Touch == hsm.TouchDefault && token.Can.Policies {
		o.Generate.Touch = hsm.TouchCached
	}
}

// keyMaker makes the key of an enrollment, or finds the one that it is to have.
type keyMaker struct{ run *attempt }

// make generates the key on the token, or finds the one on record or asked for.
func (k keyMaker) make(ctx context.Context) (outcome, error) {
	switch {
	case k.run.record.Request.KeyHash != "":
		return k.reuse(ctx, k.run.record.Request.Key)
	case k.run.record.Options.Key.Scheme != "":
		return k.reuse(ctx, k.run.record.Options.Key)
	}
	found, before, err := k.inPlace(ctx)
	if err != nil {
		return outcome{}, err
	}
	for rounds := 0; found != nil; rounds++ {
		if rounds > 1 { // the halves of one pair
			return outcome{}, fmt.Errorf("%w: %s is still there after it was removed", hsm.ErrModule, found.URI)
		}
		whole, err := k.isWhole(ctx, found.URI)
		if err != nil {
			return outcome{}, err
		}
		if whole {
			return k.take(*found, true)
		}
		// Of an RSA key whose public object is gone, the private one tells all.
		if found, before, err = k.inPlace(ctx); err != nil {
			return outcome{}, err
		}
	}
	k.run.record.Generating, k.run.record.Before = true, before
	if err := enrolling.NewStore(k.run.env).Save(k.run.record); err != nil {
		return outcome{}, err
	}
	var out outcome
	err = k.run.withPIN(ctx, generating, func(p hsm.Prompter) error {
		slot, err := k.run.token.Generate(ctx, k.run.record.Options.Generate, p)
		if err == nil {
			out, err = k.take(slot, false)
		}
		return err
	})
	return out, err
}

// generating is what a token is asked for, as prompts say it.
const generating = "generate a key"

// occupied is the refusal of a key that would be made where another one is, as far as the token
// shows that without a PIN.
func (k keyMaker) occupied(ctx context.Context) (refusal, err error) {
	if k.run.record.Request.KeyHash != "" || k.run.record.Options.Key.Scheme != "" {
		return nil, nil
	}
	if _, _, err = k.inPlace(ctx); errors.Is(err, hsm.ErrOccupied) {
		return err, nil
	}
	return nil, err
}

// isWhole tells whether the key that an interrupted run left can sign. A
// PKCS#11 token may have got no further than the public object, which looks
// like a key as long as the token hides private ones: such a half is removed.
func (k keyMaker) isWhole(ctx context.Context, u hsm.URI) (bool, error) {
	if !k.run.info.Kind().Hides {
		return true, nil
	}
	unlock := func(p hsm.Prompter) error { return k.run.token.Unlock(ctx, p) }
	if err := k.run.withPIN(ctx, generating, unlock); err != nil {
		return false, err
	}
	slot, err := k.run.token.Slot(ctx, u)
	if err != nil || slot.Key != nil {
		return err == nil, err
	}
	remove := func(p hsm.Prompter) error { return k.run.token.Delete(ctx, slot.URI, p) }
	if err := k.run.withPIN(ctx, generating, remove); err != nil {
		return false, fmt.Errorf("remove the half-made key of an interrupted run: %w", err)
	}
	k.run.note("an interrupted run left half a key on the token; it was removed")
	return false, nil
}

// reuse checks that u names a usable key, and the same one as before if one
// is on record.
func (k keyMaker) reuse(ctx context.Context, u hsm.URI) (outcome, error) {
	slot, err := k.run.token.Slot(ctx, u)
	if err != nil {
		return outcome{}, err
	}
	return k.take(slot, true)
}

func (k keyMaker) take(slot hsm.Slot, reused bool) (outcome, error) {
	if slot.Key == nil {
		return outcome{}, hint.With(fmt.Errorf("%s holds no key: %w", slot.URI, hsm.ErrNoKey),
			"`kubehsm key list` shows the keys there are")
	}
	if slot.Problem != "" {
		return outcome{}, fmt.Errorf("%s cannot be used: %s", slot.URI, slot.Problem)
	}
	if slot.Key.Extractable {
		return outcome{}, hint.With(fmt.Errorf("the private key %s can be read out of the token", slot.URI),
			"generate a new key; leave --key out")
	}
	hash, err := hsm.Fingerprint(slot.Key.Public)
	if err != nil {
		return outcome{}, err
	}
	if k.run.record.Request.KeyHash != "" && k.run.record.Request.KeyHash != hash {
		return outcome{}, hint.Withf(fmt.Errorf("%s: %w", slot.URI, hsm.ErrKeyMismatch),
			"the key was replaced since; start over with --restart or another --name")
	}
	k.run.public = slot.Key.Public
	k.run.record.Request.Key, k.run.record.Request.KeyHash, k.run.record.Generating = slot.URI, hash, false
	return outcome{message: fmt.Sprintf("%s, %s", slot.Key.Algorithm, shortHash(hash)), reused: reused}, nil
}

// inPlace looks at what is where the new key would go. It returns the key that
// an earlier run generated but did not live to record, and the fingerprints of
// all keys there. A key that is not ours is an error unless it may be
// overwritten: labels are how people tell keys apart.
func (k keyMaker) inPlace(ctx context.Context) (ours *hsm.Slot, hashes []string, err error) {
	slots, err := k.run.token.Slots(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	o := k.run.record.Options.Generate
	for _, s := range slots {
		here, place := s.Label == o.Label, s.Label
		if k.run.info.Kind().HasSlots() {
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
		case k.run.record.Generating && !slices.Contains(k.run.record.Before, hash):
			return &s, nil, nil
		case !o.Overwrite:
			other := "choose another --name"
			if k.run.info.Kind().HasSlots() {
				other = "destroy it with --overwrite"
				if free, err := spareSlot(k.run.info.Kind(), slots); err == nil {
					other = "make another in a free slot with --slot " + free + ", or " + other
				}
			}
			return nil, nil, hint.Withf(fmt.Errorf("token %q has a key %q already: %w", k.run.info.Name(), place,
				hsm.ErrOccupied), "reuse it with --key '%s', or %s", s.URI, other)
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

// adopt takes the key and the certificate that the token has. Nothing is written to the token.
func (r *attempt) adopt(ctx context.Context) (outcome, error) {
	o := r.record.Options
	if r.info.Kind().Hides {
		unlock := func(p hsm.Prompter) error { return r.token.Unlock(ctx, p) }
		if err := r.withPIN(ctx, "use the certificate", unlock); err != nil {
			return outcome{}, err
		}
	}
	r.record.Request.KeyHash = "" // the issuer may have put another key there with its next certificate
	out, err := keyMaker{r}.reuse(ctx, o.Key)
	if err != nil {
		return outcome{}, err
	}
	slots, err := r.token.Slots(ctx, nil)
	if err != nil {
		return outcome{}, err
	}
	slot, err := r.token.Slot(ctx, o.Key)
	if err != nil {
		return outcome{}, err
	}
	if slot.Certificate == nil {
		return outcome{}, noneAdoptable(o.Key, nil)
	}
	more, err := knownIssuers(r.given, r.record.Certificate)
	if err != nil {
		return outcome{}, err
	}
	others := issuers(slots, more)
	cert := csr.WithChain(slot.Certificate, others)
	if r.given.FetchChain {
		if cert, err = csr.FetchChain(ctx, cert, others); err != nil {
			return outcome{}, err
		}
	}
	if err := cert.Check(r.public, true, time.Time{}); err != nil {
		return outcome{}, err
	}
	who := cert.Subject()
	r.record.Options.User, r.record.Options.Groups = who.User, who.Groups
	r.record.Certificate, r.record.Rejected = cert.PEM, false
	r.roots = readableRoots(ctx, r.env, o)
	if err := r.refuseUntrusted(ctx, cert); err != nil {
		return outcome{}, err
	}
	out.message += fmt.Sprintf(", certificate of %s, issued by %s", who.User, cert.Leaf.Issuer.String())
	return out, nil
}
