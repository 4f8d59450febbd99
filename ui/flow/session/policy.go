package session

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// next has the key sign p as the version after the one that is known.
func (c Consent) next(key crypto.Signer, p consent.Policy) (signed consent.Signed, err error) {
	return c.nextBy(key.Public(), p, func(text string) ([]byte, error) { return consent.Sign(key, text) })
}

// nextBy returns the next version of the policy, signed by sign.
func (c Consent) nextBy(key crypto.PublicKey, p consent.Policy,
	sign func(text string) ([]byte, error)) (signed consent.Signed, err error) {
	number, before := c.known.Next(c.Enrollment.KeyHash, c.Standing, c.signed)
	v, err := consent.Next(key, number, before, p, time.Now())
	if err != nil {
		return signed, err
	}
	if signed.Text, err = v.Text(); err != nil {
		return signed, err
	}
	if signed.Signature, err = sign(signed.Text); err != nil {
		return signed, err
	}
	_, err = signed.Open(c.Enrollment.KeyHash)
	return signed, err
}

// errNotHeld says that the agent does not sign a policy.
var errNotHeld = errors.New("the agent does not hold the key unlocked")

// signHeld has the agent sign p as the next version of c's policy without a PIN. It returns
// [errNotHeld] if the agent does not hold the key unlocked, so that the token has to sign.
func (a Agent) signHeld(ctx context.Context, c Consent, p consent.Policy, asks hsm.Prompter) (signed consent.Signed,
	err error) {
	chain, err := a.Env.Enrollments().Certificate(c.Enrollment)
	if err != nil {
		return signed, errNotHeld
	}
	err = a.withAgent(ctx, func(agent *client.Client) error {
		agent.Waiting = a.Env.WaitingOf(ctx)
		signed, err = c.nextBy(chain[0].PublicKey, p, func(text string) ([]byte, error) {
			signature, held, err := agent.SignPolicy(ctx, c.Enrollment.Name, text, asks)
			if err == nil && !held {
				err = errNotHeld
			}
			return signature, err
		})
		return err
	})
	if err != nil && hsm.ErrorCode(err) == "" && ctx.Err() == nil { // no agent, or an older one
		err = errNotHeld
	}
	return signed, err
}

// keepPolicy puts a signed version on record and in force, for all enrollments of the key. The
// audit log comes first: no policy is in force that is not on record. Whoever is killed before
// the rest is written leaves the strictest policy in force.
func (a Agent) keepPolicy(ctx context.Context, c Consent, p consent.Policy, signed consent.Signed,
	r audit.Record) error {
	if err := a.Env.Dirs.Prepare(); err != nil {
		return err
	}
	store, hash := a.Env.Enrollments(), c.Enrollment.KeyHash
	lock, err := store.LockPolicy(hash)
	if err == nil {
		_, err = lock.TryLockContext(ctx, 20*time.Millisecond)
	}
	if err != nil {
		return a.Env.Unwritable(fmt.Errorf("lock the consent policy: %w", err))
	}
	defer lock.Close() // the lock goes with its file
	v, err := signed.Open(hash)
	if err != nil {
		return err
	}
	r.Number, r.Statement, r.Signature = v.Number, signed.Text, signed.Signature
	for _, e := range c.of {
		if err := a.RecordPolicy(e, r); err != nil {
			return err
		}
	}
	err = store.SavePolicy(hash, signed)
	for _, e := range c.of {
		e.Policy, e.Rules = p.Mode, p.Rules
		err = errors.Join(err, store.Save(e))
	}
	if err != nil {
		err = hint.With(a.Env.Unwritable(err), "repeat `kubehsm consent set`: until then "+
			"the strictest former policy applies")
	}
	return err
}

// CarryConsent has the key of the enrollment to, which is not stored yet, sign a policy that is
// no less strict than the one of from's key: to takes from's place with another key. key signs,
// once at most, and nothing where no policy asks for anything.
func (a Agent) CarryConsent(ctx context.Context, from, to enrollment.Enrollment, key crypto.Signer) error {
	if from.KeyHash == to.KeyHash {
		return nil
	}
	old, err := a.consentOf(ctx, from)
	if err != nil {
		return err
	}
	c, err := a.consentOf(ctx, to)
	if err != nil {
		return err
	}
	p := consent.Strictest(c.Policy, old.Policy)
	if !p.Asks() || c.Signed() && c.Policy.Covers(p) {
		return nil
	}
	p = p.Joined()
	signed, err := c.next(key, p)
	if err != nil {
		return err
	}
	r := audit.Record{Reason: audit.PolicySet, Was: c.Policy.String(), Policy: p.String()}
	return a.keepPolicy(ctx, c, p, signed, r)
}

// Enrolled is en as it is to be stored, with the policy of its key and of the enrollment whose
// place it takes, and the record of that for the audit log.
func (a Agent) Enrolled(ctx context.Context, en enrollment.Enrollment) (enrollment.Enrollment, audit.Record, error) {
	r := audit.Record{Reason: audit.PolicyEnrolled}
	c, err := a.consentOf(ctx, en)
	if err != nil {
		return en, r, err
	}
	p := consent.Strictest(en.Consent(), c.Policy).Joined()
	en.Policy, en.Rules, r.Policy = p.Mode, p.Rules, p.String()
	if v := c.Standing.Version; c.Signed() && v.Consent().String() == r.Policy {
		r.Number, r.Statement, r.Signature = v.Number, c.signed.Text, c.signed.Signature
	}
	return en, r, nil
}

// StayStrict has the other enrollments of en's key, and those that share its context, ask for what en does,
// before en is removed, so that its removal lowers nothing.
func (a Agent) StayStrict(ctx context.Context, en enrollment.Enrollment) error {
	c, err := a.consentOf(ctx, en)
	if err != nil {
		return err
	}
	if err := raise(a, family(a.Env, en), c.Policy.Joined()); err != nil {
		return err
	}
	if err != nil || !en.Consent().Asks() || c.Standing.Policy.Covers(en.Consent()) {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(c.of), func(e enrollment.Enrollment) bool { return e.Name == en.Name })
	return raise(a, others, en.Consent())
}

// raise has enrollments ask for what least does, which no key signs.
func raise(a Agent, all []enrollment.Enrollment, least consent.Policy) error {
	for _, e := range all {
		if e.Consent().Covers(least) {
			continue
		}
		was, p := e.Consent(), consent.Strictest(e.Consent(), least).Joined()
		e.Policy, e.Rules = p.Mode, p.Rules
		r := audit.Record{Reason: audit.PolicySet, Was: was.String(), Policy: p.String()}
		if err := a.RecordPolicy(e, r); err != nil {
			return err
		}
		if err := a.Env.Enrollments().Save(e); err != nil {
			return a.Env.Unwritable(err)
		}
	}
	return nil
}

// RecordPolicy puts a change of an enrollment's consent policy into the audit log.
func (a Agent) RecordPolicy(en enrollment.Enrollment, r audit.Record) error {
	if err := a.Env.Dirs.Prepare(); err != nil {
		return err
	}
	r.Event, r.Enrollment, r.Key, r.Token = audit.Policy, en.Name, en.KeyHash, en.Key.TokenOnly().Identity()
	r.Client = &audit.Process{PID: os.Getpid(), Command: "kubehsm"}
	return a.Env.Unwritable(audit.Append(audit.Path(a.Env.Dirs), r))
}

// Signatures checks signatures in the audit log. It reads the enrollments once, and again when
// one has changed. It is for one goroutine.
type Signatures struct {
	store   enrollment.Store
	version string
	ofKey   map[string][]enrollment.Enrollment
	err     error // of enrollments that cannot be read
}

// Signatures returns what checks the signatures in the audit log of a.
func (a Agent) Signatures() *Signatures { return &Signatures{store: a.Env.Enrollments()} }

// Verify checks the token's signature in a record of the audit log: of a version of a
// policy by the key that it names, of a statement by the certificate that the enrollment had
// then. Errors wrap [consent.ErrSignature] or [consent.ErrFormerKey], or say what is missing.
func (s *Signatures) Verify(r audit.Record) error {
	if v := s.store.ListVersion(); s.ofKey == nil || v != s.version {
		var all []enrollment.Enrollment
		all, s.err = s.store.List()
		s.version, s.ofKey = v, map[string][]enrollment.Enrollment{}
		for _, e := range all {
			s.ofKey[e.KeyHash] = append(s.ofKey[e.KeyHash], e)
		}
	}
	all := s.ofKey[r.Key]
	if err := verifySignature(s.store, all, r); err != nil {
		return err
	}
	// Whoever writes into the log can write a certificate for a key of his own, too.
	if slices.ContainsFunc(all, func(e enrollment.Enrollment) bool {
		return r.Enrollment == "" || e.Name == r.Enrollment || e.SpareOf == r.Enrollment
	}) {
		return nil
	}
	return errors.Join(consent.ErrFormerKey, s.err)
}

// verifySignature checks the signature in a record by a key that has the enrollments all.
func verifySignature(store enrollment.Store, all []enrollment.Enrollment, r audit.Record) error {
	if len(r.Signature) == 0 {
		return errors.New("the record has no signature")
	}
	differs := fmt.Errorf("%w: the record says something else", consent.ErrSignature)
	switch r.Event {
	case audit.Policy, audit.PolicyKey:
		v, err := consent.Signed{Text: r.Statement, Signature: r.Signature}.Open(r.Key)
		number := r.Number // older programs leave it out
		if err == nil && (number != 0 && v.Number != number || v.Consent().String() != r.Policy) {
			err = differs
		}
		return err
	case audit.Consent:
	default:
		return errors.New("the record has no signature")
	}
	s, err := consent.Read(r.Statement)
	if err != nil {
		return err
	}
	if s.Enrollment != r.Enrollment || s.Request.String() != r.Request {
		return differs
	}
	by := enrollment.Enrollment{Name: r.Enrollment, KeyHash: r.Key}
	if i := slices.IndexFunc(all, func(e enrollment.Enrollment) bool { return e.SpareOf == r.Enrollment }); i >= 0 {
		by = all[i]
	}
	chain, err := store.Certificate(by)
	if err != nil {
		return err
	}
	return consent.Verify(chain[0].PublicKey, r.Statement, r.Signature)
}
