package session

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// Consent is the policy of the enrollment called name, and the host that it leads
// to.
func (a Agent) Consent(_ context.Context, name string) (p consent.Policy, host string, err error) {
	en, err := a.Env.Enrollments().Load(name)
	return en.Consent(), en.Host(), err
}

// SetConsent makes p the policy of the enrollment called name and returns the
// enrollment. One that is less strict takes the token's PIN, which asks is asked for
// ([hsm.ErrNoTerminal] if it cannot be). It is put on record. The agent, if it runs,
// follows within seconds; the sessions of before end then. Errors:
// [enrollment.ErrUnknown], [enrollment.ErrInvalid].
func (a Agent) SetConsent(ctx context.Context, name string, p consent.Policy,
	asks hsm.Prompter) (enrollment.Enrollment, error) {
	release, err := a.Env.Lock(ctx, name)
	if err != nil {
		return enrollment.Enrollment{}, err
	}
	defer release()
	en, err := a.Env.Enrollments().Load(name)
	if err != nil {
		return en, err
	}
	was := en.Consent()
	known, err := audit.Policies(ctx, audit.Path(a.Env.Dirs))
	if err != nil {
		return en, err
	}
	if s := known[name]; s != nil && s.Last.Policy != "" { // the file may have been changed since
		was = consent.Strictest(was, consent.ParsePolicy(s.Last.Policy))
	}
	r := audit.Record{Reason: audit.PolicySet, Was: was.String(), Policy: p.String(), Lowered: !p.Covers(was)}
	if r.Lowered {
		if err := a.provePIN(ctx, en, asks); err != nil {
			return en, err
		}
	}
	en.Policy, en.Rules = p.Mode, p.Rules
	if err := en.Validate(); err != nil {
		return en, err
	}
	if err := a.RecordPolicy(en, r); err != nil { // first: no policy is in force that is not on record
		return en, err
	}
	return en, a.Env.Enrollments().Save(en)
}

// provePIN has the PIN of the enrollment's key typed, before its consent policy is
// lowered: whoever runs programs as the user does not have it.
func (a Agent) provePIN(ctx context.Context, en enrollment.Enrollment, asks hsm.Prompter) error {
	asks = ask.With(asks, hsm.Purpose{Cluster: en.Name, Action: "lower the consent policy"})
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
		if err := t.Lock(); err != nil { // an open terminal UI may have unlocked it for something else
			return err
		}
		return errors.Join(t.Unlock(ctx, asks), t.Lock())
	})
	if errors.Is(err, hsm.ErrNoTerminal) {
		err = hint.With(err, "a less strict policy requires the token's PIN: run the command in a terminal")
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

// VerifyConsent checks the token's signature in a record of the audit log
// against the certificate that the enrollment had then. Errors wrap
// [consent.ErrSignature], or say what is missing.
func (a Agent) VerifyConsent(r audit.Record) error {
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
	chain, err := a.Env.Enrollments().Certificate(enrollment.Enrollment{Name: r.Enrollment, KeyHash: r.Key})
	if err != nil {
		return err
	}
	return consent.Verify(chain[0].PublicKey, r.Statement, r.Signature)
}
