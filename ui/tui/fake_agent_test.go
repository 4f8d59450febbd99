package tui

import (
	"context"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/ui/flow/doctor"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/tui/screen/activity"
)

func fakeStatus() message.Status {
	return message.Status{
		Version: "1.0.0", PID: 4711, Started: fakeNow().Add(-2 * time.Hour), Signatures: 14, Bridge: "127.0.0.1:40123",
		Tokens:    []message.TokenStatus{{URI: pivToken().Info.URI(), Unlocked: true, Since: fakeNow().Add(-time.Hour), Until: fakeNow().Add(25 * time.Minute)}},
		Upstreams: []bridge.UpstreamStatus{{Enrollment: "prod-hsm", Server: "prod.example.com:6443", Requests: 311, Signatures: 14}},
		Sessions:  []bridge.SessionStatus{{Enrollment: "prod-hsm", Client: process.ID{PID: 5120}, Requests: 12, Open: 1}},
		Consents:  []message.ConsentStatus{{Enrollment: "prod-hsm", Client: process.ID{PID: 5121}, Request: `delete pods "web-1" in "shop"`, Since: fakeNow().Add(-4 * time.Second)}},
	}
}

func fakeRecords() []audit.Record {
	at := func(d time.Duration) time.Time { return fakeNow().Add(-d) }
	kubectl := &audit.Process{PID: 5120, Command: "kubectl"}
	return []audit.Record{
		{Time: at(2 * time.Hour), Event: audit.AgentStart, Version: "1.0.0"},
		{Time: at(time.Hour), Event: audit.Unlock, Outcome: audit.Refused, Error: "pin-incorrect", Token: pivToken().Info.URI(), Client: kubectl},
		{Time: at(59 * time.Minute), Event: audit.Unlock, Outcome: audit.Granted, Token: pivToken().Info.URI(), Client: kubectl},
		{Time: at(5 * time.Minute), Event: audit.Signature, Outcome: audit.Granted, Reason: "sign-in", Enrollment: "prod-hsm", Key: "3b1f0c6de1c54cf5b9be", Client: kubectl},
		{Time: at(time.Minute), Event: audit.Denial, Code: 401, Reason: "expired", Enrollment: "prod-hsm", Count: 3},
	}
}

func (f *fakeBackend) AgentStatus(context.Context) (message.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status, f.statusErr
}

func (f *fakeBackend) LockAgent(context.Context, func(string)) error { return f.did("lock the agent") }

func (f *fakeBackend) StopAgent(context.Context, func(string)) error {
	f.mu.Lock()
	f.statusErr = client.ErrNotRunning
	f.mu.Unlock()
	return f.did("stop the agent")
}

func (f *fakeBackend) Audit(ctx context.Context, _ audit.Filter, each func(audit.Record) error) (int, error) {
	for _, r := range fakeRecords() {
		if err := each(r); err != nil {
			return 0, err
		}
	}
	for {
		select {
		case r := <-f.audited:
			if err := each(r); err != nil {
				return 0, err
			}
		case <-ctx.Done():
			return 0, nil
		}
	}
}

func (f *fakeBackend) AuditDetail(r audit.Record) string {
	return session.Agent{Env: &env.Env{}}.AuditDetail(r)
}

func (f *fakeBackend) AgentUnit(launchd bool) ([]byte, string, error) {
	return session.Agent{Env: &env.Env{Executable: "/usr/bin/kubehsm"}}.AgentUnit(launchd)
}

func (f *fakeBackend) PlanMove(_ context.Context, port int) (activity.Move, error) {
	return activity.Move{From: "127.0.0.1:40123", To: fmt.Sprintf("127.0.0.1:%d", port), Enrollments: []string{"prod-hsm"},
		Apply: func(context.Context) error { return f.did("move the bridge to %d", port) }}, nil
}

func (f *fakeBackend) WriteReport(_ context.Context, path string) error {
	return f.did("report to %s", path)
}

func fakeChecks() []doctor.Check {
	return []doctor.Check{
		{ID: "pcscd", Group: doctor.GroupTokens, Title: "PC/SC service", State: doctor.OK, Found: "pcscd 2.3.3 answers"},
		{ID: "kubectl-path", Group: doctor.GroupKubectl, Title: "PATH of GUI programs", State: doctor.Warning, Found: "kubectl is not on the bare PATH",
			Why: "Programs started from a desktop do not read your shell's files.", Fix: "ln -s ~/bin/kubectl /usr/local/bin/kubectl"},
		{ID: "clock", Group: doctor.GroupClusters, Title: "Clock", State: doctor.Failed, Found: "7 min behind prod.example.com",
			Why: "A certificate is refused before its time has come.", Fix: "timedatectl set-ntp true"},
	}
}

func (f *fakeBackend) Diagnose(_ context.Context, _ bool, report func(doctor.Check)) []doctor.Check {
	for _, c := range fakeChecks() {
		report(c)
	}
	return fakeChecks()
}

func (f *fakeBackend) AskBy(p hsm.Prompter) { f.asker = p }

// OfferPerson keeps the prompter for the test to ask, as the agent would.
func (f *fakeBackend) OfferPerson(ctx context.Context, p hsm.Prompter, _ func()) error {
	select {
	case f.offered <- p:
	default:
	}
	<-ctx.Done()
	return nil
}
