package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// Consent is which requests of an enrollment need consent.
type Consent struct {
	Enrollment enrollment.Enrollment
	// Version is what the enrollment's key has signed; Problem is why that does not count, nil if
	// it does.
	Version enrollment.Version
	Problem error
	// Also are other enrollments whose policies apply too, as they are of the same key or of
	// another key of the same context.
	Also []enrollment.Enrollment
}

// Policy is the enrollment's own.
func (c Consent) Policy() consent.Policy { return c.Enrollment.Consent() }

// Asks reports whether requests may need consent.
func (c Consent) Asks() bool { return c.Policy().Asks() || len(c.Also) > 0 }

// Settled reports whether p is the enrollment's policy already, signed by its key.
func (c Consent) Settled(p consent.Policy) bool {
	return c.Problem == nil && p.String() == c.Policy().String()
}

// Consent returns which requests of the enrollment called name need consent. Errors:
// [enrollment.ErrUnknown], [enrollment.ErrInvalid].
func (a Agent) Consent(name string) (Consent, error) {
	store := a.Env.Enrollments()
	en, err := store.Load(name)
	if err != nil {
		return Consent{}, err
	}
	c := Consent{Enrollment: en}
	c.Version, c.Problem = en.Version()
	// What cannot be read is not served, so that it does not count: doctor tells of it.
	family, _ := store.Family(en)
	if c.Problem == nil && en.SpareOf != "" && family[0].Name == en.SpareOf {
		_, _, c.Problem = en.Follow(family[0])
	}
	hashes := map[string]bool{en.KeyHash: true}
	for _, e := range family {
		hashes[e.KeyHash] = true
	}
	all, _ := store.List()
	for _, e := range all {
		if _, unsigned := e.Version(); e.Name != name && hashes[e.KeyHash] && e.Consent().Asks() && unsigned == nil {
			c.Also = append(c.Also, e)
		}
	}
	return c, nil
}

// SetConsent makes p the policy of the enrollment called name, whose key signs that, see
// [Agent.Sign]. A spare becomes one of the key that its enrollment has now. The agent, if it runs, follows within seconds; the sessions of before end then.
// Errors: [enrollment.ErrUnknown], [enrollment.ErrInvalid].
func (a Agent) SetConsent(ctx context.Context, name string, p consent.Policy, asks hsm.Prompter) (Consent, error) {
	if err := p.Validate(); err != nil {
		return Consent{}, err
	}
	release, err := a.Env.Lock(ctx, name)
	if err != nil {
		return Consent{}, err
	}
	defer release()
	c, err := a.Consent(name)
	if err != nil || c.Settled(p) {
		return c, err
	}
	en := c.Enrollment
	en.Policy, en.Rules = p.Mode, p.Rules
	if first, err := a.Env.Enrollments().Load(en.SpareOf); err == nil && en.SpareOf != "" {
		en.SpareOfKey = first.KeyHash
	}
	if en, err = a.Sign(ctx, en, asks); err != nil {
		return c, err
	}
	if err := a.Env.Enrollments().Save(en); err != nil {
		return c, a.Env.Unwritable(err)
	}
	return a.Consent(name)
}

// Sign returns en with its record signed by its key, which is to be stored. It takes the token's
// PIN, given for that purpose after what is signed was shown: no PIN source, and no token that is
// held unlocked, will do.
func (a Agent) Sign(ctx context.Context, en enrollment.Enrollment, asks hsm.Prompter) (enrollment.Enrollment, error) {
	asks = ask.With(ask.Typed(ask.From(asks)).Prompter(),
		hsm.Purpose{Cluster: en.Name, Action: "sign the record of the enrollment", Fields: en.Fields()})
	err := token.Tokens{Env: a.Env}.With(ctx, en.Key, func(t hsm.Token) error {
		slot, err := t.Slot(ctx, en.Key)
		if err != nil {
			return err
		}
		if slot.Key == nil {
			return fmt.Errorf("%s: %w", en.Key, hsm.ErrNoKey)
		}
		// Another token, whose PIN somebody else knows, does not do.
		if hash, err := hsm.Fingerprint(slot.Key.Public); err != nil || hash != en.KeyHash {
			return errors.Join(fmt.Errorf("%s: %w", en.Key, hsm.ErrKeyMismatch), err)
		}
		err = t.Lock() // an open terminal UI may have unlocked it for something else
		if err == nil && slot.Key.PIN != hsm.PINAlways {
			err = t.Unlock(ctx, asks)
		}
		if err != nil {
			return err
		}
		signer, err := t.Signer(ctx, en.Key, slot.Key.Public, asks)
		if err == nil {
			en, err = en.SignedBy(signer, time.Now())
		}
		return errors.Join(err, t.Lock())
	})
	if errors.Is(err, hsm.ErrNoTerminal) || errors.Is(err, hsm.ErrPINRequired) {
		err = hint.With(err, "the key signs the record, which requires the token's PIN: run the command in a terminal, or give "+
			"--pin-fd")
	}
	return en, err
}
