package present

import (
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
)

// TestAuditRows: a row has everything that the record tells, including whether its signature
// is good.
func TestAuditRows(t *testing.T) {
	long := "0123456789abcdef0123"
	for name, c := range map[string]struct {
		record audit.Record
		verify error
		want   AuditRow
	}{
		"a signature": {audit.Record{Event: audit.Signature, Outcome: audit.Granted, Reason: "sign-in", Enrollment: "prod", Key: long, Server: "prod:6443",
			Client: &audit.Process{Command: "kubectl", PID: 7}}, nil,
			AuditRow{"signature", Line{"granted", Good}, "prod", "kubectl 7", "sign-in, at prod:6443, key 0123456789abcdef"}},
		"a crash with a PIN": {audit.Record{Event: audit.WorkerEnd, Reason: "crash", PIN: true, Token: hsm.URI{Token: "lab"}}, nil,
			AuditRow{Event: "worker-end", Detail: "its library crashed; it had the PIN, so the token may have counted a try, token lab"}},
		"a kill": {audit.Record{Event: audit.WorkerEnd, Reason: "no-answer"}, nil,
			AuditRow{Event: "worker-end", Detail: "it did not answer and was killed"}},
		"denials": {audit.Record{Event: audit.Denial, Code: 401, Reason: "expired\x1b", Count: 3}, nil,
			AuditRow{Event: "denial", Detail: `401, expired\x1b, 3 times`}},
		"signed": {audit.Record{Event: audit.Consent, Outcome: audit.Granted, Request: "delete pods", Signature: []byte{1}}, nil,
			AuditRow{Event: "consent", Outcome: Line{"granted", Good}, Detail: "delete pods, signed"}},
		"signed wrongly": {audit.Record{Event: audit.Consent, Outcome: audit.Cancelled, Signature: []byte{1}}, consent.ErrSignature,
			AuditRow{Event: "consent", Outcome: Line{"cancelled", Warn}, Detail: "WRONG SIGNATURE"}},
		"not checked": {audit.Record{Event: audit.Consent, Outcome: audit.Failed, Signature: []byte{1}}, errors.New("no certificate"),
			AuditRow{Event: "consent", Outcome: Line{"failed", Bad}, Detail: "signature not checked: no certificate"}},
		"given up": {audit.Record{Event: audit.Unlock, Outcome: audit.Cancelled, Error: "context-canceled"}, nil,
			AuditRow{Event: "unlock", Outcome: Line{"cancelled", Warn},
				Detail: "given up: the program that asked has ended, or stopped waiting"}},
		"a version": {audit.Record{Event: audit.Policy, Reason: "changed", Policy: "writes", Number: 7, Signature: []byte{1}}, nil,
			AuditRow{Event: "policy", Detail: "changed, writes, signed as version 7"}},
		"a first version": {audit.Record{Event: audit.Policy, Reason: "first", Policy: "session"}, nil,
			AuditRow{Event: "policy", Detail: "first seen since the agent started, session"}},
	} {
		if got := AuditRowOf(c.record, func(audit.Record) error { return c.verify }); got != c.want {
			t.Errorf("%s: %+v\nwant %+v", name, got, c.want)
		}
	}
}
