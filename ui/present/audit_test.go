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
		"a record that does not count": {audit.Record{Event: audit.Policy, Reason: audit.PolicyRecord, Policy: "always",
			Error: string(audit.RecordOlder)}, nil,
			AuditRow{Event: "policy", Detail: "the policy's record is older than the one that the audit log knows, always"}},
		"given up": {audit.Record{Event: audit.Unlock, Outcome: audit.Cancelled, Error: "context-canceled"}, nil,
			AuditRow{Event: "unlock", Outcome: Line{"cancelled", Warn},
				Detail: "given up: the program that asked has ended, or stopped waiting"}},
		"a notice": {audit.Record{Event: audit.Policy, Reason: audit.PolicyTold}, nil,
			AuditRow{Event: "policy", Detail: "you were told of the changes"}},
		"a lowered policy": {audit.Record{Event: audit.Policy, Policy: "session", Was: "always", Lowered: true}, nil,
			AuditRow{Event: "policy", Detail: "session, was always (less strict)"}},
	} {
		if got := AuditRowOf(c.record, func(audit.Record) error { return c.verify }); got != c.want {
			t.Errorf("%s: %+v\nwant %+v", name, got, c.want)
		}
	}
}
