package flow

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// Consent is the policy of the enrolment called name, and the host that it leads
// to.
func (e *Env) Consent(_ context.Context, name string) (p consent.Policy, host string, err error) {
	en, err := e.enrollments().Load(name)
	return en.Consent(), en.Host(), err
}

// SetConsent makes p the policy of the enrolment called name and returns the
// enrolment. The agent, if it runs, follows within seconds; the sessions of
// before end then. Errors: [enrollment.ErrUnknown], [enrollment.ErrInvalid].
func (e *Env) SetConsent(ctx context.Context, name string, p consent.Policy) (enrollment.Enrollment, error) {
	release, err := e.lockName(ctx, name)
	if err != nil {
		return enrollment.Enrollment{}, err
	}
	defer release()
	en, err := e.enrollments().Load(name)
	if err != nil {
		return en, err
	}
	en.Policy, en.Rules = p.Mode, p.Rules
	return en, e.enrollments().Save(en)
}

// VerifyConsent checks the token's signature in a record of the audit log
// against the certificate that the enrolment had then. Errors wrap
// [consent.ErrSignature], or say what is missing.
func (e *Env) VerifyConsent(r audit.Record) error {
	if r.Event != audit.Consent || len(r.Signature) == 0 {
		return errors.New("the record has no signature")
	}
	s, err := consent.Read(r.Statement)
	if err != nil {
		return err
	}
	if s.Enrollment != r.Enrollment || s.Request.String() != r.Request {
		return fmt.Errorf("%w: the record says something else", consent.ErrSignature)
	}
	chain, err := e.enrollments().Certificate(enrollment.Enrollment{Name: r.Enrollment, KeyHash: r.Key})
	if err != nil {
		return err
	}
	return consent.Verify(chain[0].PublicKey, r.Statement, r.Signature)
}
