package desk

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
)

// Removable tells whether there is anything that can be taken away.
func (r Revocation) Removable() bool {
	return len(r.Bindings)+len(r.Pending)+len(r.Approved)+len(r.Tickets)+len(r.Tokens) > 0 || r.Stops()
}

// Stops tells whether there are certificates that can be kept from writing.
func (r Revocation) Stops() bool { return r.Stop != nil && len(r.Stop.Allowed().Targets) > 0 }

// StopsCertificate tells whether c is one of the certificates that can be kept from writing.
func (r Revocation) StopsCertificate(c CertificateView) bool {
	return r.Stop != nil &&
		slices.ContainsFunc(r.Stop.Allowed().Targets, func(t Target) bool { return t.Certificate == c.hash })
}

// Revoked tells whether c is one of the certificates that are kept from writing: before, or once this was done.
func (r Revocation) Revoked(c CertificateView) bool {
	if r.Stop == nil || r.Stop.Pending() != nil {
		return false
	}
	return r.RevokedAlready(c) || r.Stop.Done != nil && r.StopsCertificate(c)
}

// RevokedAlready tells whether c is one of the certificates that were revoked before.
func (r Revocation) RevokedAlready(c CertificateView) bool {
	return r.Stop != nil && slices.ContainsFunc(r.Stop.Already, func(t Target) bool { return t.Certificate == c.hash })
}

// Err is the error for what could not be taken away, nil if all of it was.
func (r Revocation) Err() error {
	switch {
	case len(r.Failed) > 0 && r.Stop != nil && len(r.Stop.Risks) > 0:
		return r.Stop.risky(errors.New("not all access could be removed"))
	case len(r.Failed) > 0:
		return hint.With(errors.New("not all access could be removed"), r.sendOn())
	case len(r.Unseen) > 0 && (r.Stop == nil || !r.Stop.ByApprover): // the help desk may look at no more, and is told so
		return hint.With(
			fmt.Errorf("you may not look at everything, so some access may remain: %s", strings.Join(r.Unseen, "; ")),
			r.sendOn())
	}
	return nil
}

func (r Revocation) sendOn() string {
	return "have a cluster admin run `kubehsm helpdesk revoke --user " +
		shell.Quote(r.User) + "`"
}
