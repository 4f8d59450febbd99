package session

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// next has the key sign p as the version after the one that is known.
func (c Consent) next(key crypto.Signer, p consent.Policy) (signed consent.Signed, err error) {
	number, before := c.known.Next(c.Enrollment.KeyHash, c.Standing, c.signed)
	v, err := consent.Next(key.Public(), number, before, p, time.Now())
	if err != nil {
		return signed, err
	}
	if signed.Text, err = v.Text(); err != nil {
		return signed, err
	}
	if signed.Signature, err = consent.Sign(key, signed.Text); err != nil {
		return signed, err
	}
	_, err = signed.Open(c.Enrollment.KeyHash)
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
		err = hint.With(a.Env.Unwritable(err), "until `kubehsm consent set` is repeated the strictest policy of before applies")
	}
	return err
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

// VerifyConsent checks the token's signature in a record of the audit log: of a version of a
// policy by the key that it names, of a statement by the certificate that the enrollment had
// then. Errors wrap [consent.ErrSignature], or say what is missing.
func (a Agent) VerifyConsent(r audit.Record) error {
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
	chain, err := a.Env.Enrollments().Certificate(enrollment.Enrollment{Name: r.Enrollment, KeyHash: r.Key})
	if err != nil {
		return err
	}
	return consent.Verify(chain[0].PublicKey, r.Statement, r.Signature)
}
