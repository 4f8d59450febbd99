package renewing

import (
	"crypto/x509"
	"time"

	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/expiry"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/settings"
)

// Due tells whether a person is to renew a certificate: it is due ([expiry.Due]), and not left to
// the agent, which has time enough and has not failed. off tells whether the agent renews nothing.
// failure says why the agent's attempt came to nothing, "" if it did not.
func Due(store enrollment.Store, e enrollment.Enrollment, leaf *x509.Certificate, now time.Time,
	off func() bool) (due bool, failure string) {
	if !expiry.Due(leaf.NotBefore, leaf.NotAfter, now) {
		return false, ""
	}
	known, err := store.Renewals().Load(e)
	if err != nil || !Left(known) {
		return true, ""
	}
	if known.Failure == "" && expiry.LeftToAgent(leaf.NotBefore, leaf.NotAfter, now) {
		return off(), ""
	}
	return true, known.Failure
}

// Off tells whether the user's configuration has the agent renew nothing. Where that cannot be read,
// no agent runs.
func Off(d home.Dirs) func() bool {
	return func() bool {
		c, err := settings.Load(d)
		return err != nil || c.Renew == settings.RenewNever
	}
}

// Warning is [expiry.WarningOf] for the certificate of e, which ends at notAfter, with the failure
// that Due returns.
func Warning(e enrollment.Enrollment, notAfter, now time.Time, failure string) string {
	w := expiry.WarningOf(e.Name, e.Renewal(notAfter, now), notAfter, now)
	if failure != "" {
		w += "; the agent could not: " + failure
	}
	return w
}
