package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// Consent is the consent policy of a key, as one of its enrollments shows it.
type Consent struct {
	Enrollment enrollment.Enrollment
	// Policy is the one in force.
	Policy consent.Policy
	// Standing is what the record of the key's policy comes to.
	Standing audit.Standing
	// Stricter are the enrollments that share the enrollment's context and whose keys ask for more: the strictest
	// policy of them all counts. It is nil in a list.
	Stricter []enrollment.Enrollment

	of     []enrollment.Enrollment // all enrollments of the key
	signed consent.Signed
	known  *audit.Known
}

// Signed tells whether the key has signed the policy in force.
func (c Consent) Signed() bool {
	return c.Standing.Signed() && c.Standing.Version.Consent().Covers(c.Policy)
}

// SameKey are the other enrollments of the key.
func (c Consent) SameKey() []enrollment.Enrollment {
	return slices.DeleteFunc(slices.Clone(c.of), func(e enrollment.Enrollment) bool { return e.Name == c.Enrollment.Name })
}

// Settled tells whether p is the policy in force already, with nothing left to sign or mend.
func (c Consent) Settled(p consent.Policy) bool {
	for _, e := range c.of {
		if e.Consent().String() != p.String() {
			return false
		}
	}
	return p.String() == c.Policy.String() && c.Standing.Problem == audit.NoProblem && (c.Signed() || !p.Asks())
}

// Consent returns the consent policy of the key of the enrollment called name. Errors:
// [enrollment.ErrUnknown], [enrollment.ErrInvalid].
func (a Agent) Consent(ctx context.Context, name string) (Consent, error) {
	en, err := a.Env.Enrollments().Load(name)
	if err != nil {
		return Consent{}, err
	}
	return a.consentOf(ctx, en)
}

// Consents returns the consent policy of the key of each enrollment in all, which are all that
// can be read.
func (a Agent) Consents(ctx context.Context, all []enrollment.Enrollment) ([]Consent, error) {
	known, err := logged(ctx, a.Env)
	if err != nil {
		return nil, err
	}
	byKey := map[string][]enrollment.Enrollment{}
	for _, e := range all {
		byKey[e.KeyHash] = append(byKey[e.KeyHash], e)
	}
	judged := map[string]Consent{} // judgments by key: all enrollments of a key have the same
	consents := make([]Consent, 0, len(all))
	for _, e := range all {
		c, ok := judged[e.KeyHash]
		if !ok {
			c = judge(a.Env, e, byKey[e.KeyHash], known)
			judged[e.KeyHash] = c
		}
		c.Enrollment = e
		consents = append(consents, c)
	}
	return consents, nil
}

// consentOf is [Agent.Consent] for an enrollment that may not be stored yet.
func (a Agent) consentOf(ctx context.Context, en enrollment.Enrollment) (Consent, error) {
	known, err := logged(ctx, a.Env)
	if err != nil {
		return Consent{Enrollment: en}, err
	}
	c := judge(a.Env, en, ofKey(a.Env, en), known)
	for _, e := range family(a.Env, en) {
		if !c.Policy.Covers(judge(a.Env, e, ofKey(a.Env, e), known).Policy) {
			c.Stricter = append(c.Stricter, e)
		}
	}
	return c, nil
}

// family returns the other enrollments that share en's context. One that cannot be read does not count, as in [ofKey].
func family(e *env.Env, en enrollment.Enrollment) []enrollment.Enrollment {
	all, _ := e.Enrollments().Family(en)
	return slices.DeleteFunc(all, func(e enrollment.Enrollment) bool { return e.Name == en.Name })
}

// logged is what the audit log knows of policies.
func logged(ctx context.Context, e *env.Env) (*audit.Known, error) {
	return audit.Policies(ctx, audit.Path(e.Dirs), nil)
}

// judge finds the policy in force of en's key, whose enrollments are of.
func judge(e *env.Env, en enrollment.Enrollment, of []enrollment.Enrollment, known *audit.Known) Consent {
	c := Consent{Enrollment: en, of: of, known: known}
	signed, err := e.Enrollments().Policy(en.KeyHash)
	c.signed, c.Standing = signed, known.Judge(en.KeyHash, signed, err)
	c.Policy = c.Standing.Policy
	for _, e := range of {
		c.Policy = consent.Strictest(c.Policy, e.Consent())
	}
	return c
}

// SetConsent makes p the policy of the key of the enrollment called name, for all of the key's
// enrollments. The other keys of the enrollment get no less strict a policy. The key signs it, for
// which asks is asked, unless the agent holds the token unlocked. One that is less strict takes the
// token's PIN, typed for that purpose ([hsm.ErrNoTerminal] if nobody can type it). It is put on
// record. The agent, if it runs, follows within seconds; the sessions of before end then. Errors:
// [enrollment.ErrUnknown], [enrollment.ErrInvalid].
func (a Agent) SetConsent(ctx context.Context, name string, p consent.Policy, asks hsm.Prompter) (Consent, error) {
	if err := p.Validate(); err != nil {
		return Consent{}, err
	}
	en, err := a.Env.Enrollments().Load(name)
	if err != nil {
		return Consent{}, err
	}
	release, err := a.lockAll(ctx, en)
	if err != nil {
		return Consent{}, err
	}
	defer release()
	c, err := a.Consent(ctx, name)
	if err != nil || c.Settled(p) {
		return c, err
	}
	was := c.Policy
	for _, name := range slices.Sorted(maps.Keys(c.known.Enrollments)) { // the file may have been changed since
		if s := c.known.Enrollments[name]; s.Last.Policy != "" && s.Last.Key == en.KeyHash && !s.Gone() {
			was = consent.Strictest(was, consent.ParsePolicy(s.Last.Policy))
		}
	}
	r := audit.Record{Reason: audit.PolicySet, Was: was.String(), Policy: p.String(), Lowered: !p.Covers(was)}
	signed, err := a.signPolicy(ctx, c, p, r.Lowered, asks)
	if err != nil {
		return c, err
	}
	if err := a.keepPolicy(ctx, c, p, signed, r); err != nil {
		return c, err
	}
	if err := raise(a, family(a.Env, en), p); err != nil { // for programs that know no spares
		return c, err
	}
	return a.Consent(ctx, name)
}

// ofKey returns the enrollments of en's key. One that cannot be read is not served, so that it
// does not count, and must not keep the others from theirs: doctor tells of it.
func ofKey(e *env.Env, en enrollment.Enrollment) []enrollment.Enrollment {
	all, _ := e.Enrollments().OfKey(en.KeyHash)
	return all
}

// lockAll keeps others from all enrollments of en's key.
func (a Agent) lockAll(ctx context.Context, en enrollment.Enrollment) (release func(), err error) {
	var held []func()
	release = func() {
		for _, r := range slices.Backward(held) {
			r()
		}
	}
	for _, e := range ofKey(a.Env, en) {
		one, err := a.Env.Lock(ctx, e.Name)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, one)
	}
	return release, nil
}

// signPolicy has the key sign p as its next version: through the agent, if that holds the token
// unlocked. If the policy is lowered, the token is locked
// first, and the PIN must be typed: whoever runs programs as the user does not have it.
func (a Agent) signPolicy(ctx context.Context, c Consent, p consent.Policy, lowered bool,
	asks hsm.Prompter) (signed consent.Signed, err error) {
	en, typed := c.Enrollment, false
	purpose := hsm.Purpose{Cluster: en.Name, Action: "sign the consent policy"}
	if lowered {
		purpose.Action = "lower the consent policy"
		asks = ask.Typed(ask.From(asks), func() { typed = true }).Prompter()
	}
	asks = ask.With(asks, purpose)
	if !lowered {
		if signed, err = a.signHeld(ctx, c, p, asks); !errors.Is(err, errNotHeld) {
			return signed, err
		}
	}
	err = token.Tokens{Env: a.Env}.With(ctx, en.Key, func(t hsm.Token) error {
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
		if lowered {
			if err := t.Lock(); err != nil { // an open terminal UI may have unlocked it for something else
				return err
			}
			if err := t.Unlock(ctx, asks); err != nil {
				return err
			}
			if !typed {
				return errors.Join(errNotTyped, t.Lock())
			}
		}
		signer, err := t.Signer(ctx, en.Key, slot.Key.Public, asks)
		if err == nil {
			signed, err = c.next(signer, p)
		}
		return errors.Join(err, t.Lock())
	})
	switch {
	case errors.Is(err, hsm.ErrNoTerminal) && lowered:
		err = hint.With(err, "a less strict policy requires that you type the token's PIN: run the command in a terminal")
	case errors.Is(err, hsm.ErrNoTerminal), errors.Is(err, hsm.ErrPINRequired):
		err = hint.With(err, "the key signs its policy, which requires the token's PIN: run the command in a terminal")
	}
	return signed, err
}

// errNotTyped says that a token was unlocked without a PIN.
var errNotTyped = errors.New("a less strict policy requires the token's PIN, and this token asked for none")
