package tui

import (
	"context"
	"errors"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/consent"
	flowcontexts "github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/tui/screen/contexts"
)

// fakeChange is a planned change of the kubeconfig.
type fakeChange struct {
	f    *fakeBackend
	what string
}

func (c fakeChange) Empty() bool     { return c.what == "" }
func (c fakeChange) Notes() []string { return nil }
func (c fakeChange) Diff() string {
	return "--- /home/jane/.kube/config\n+++ /home/jane/.kube/config\n@@ -1 +1 @@\n-current-context: prod-hsm\n+current-context: trial-admin\n"
}
func (c fakeChange) Apply(context.Context) error { return c.f.did("%s", c.what) }

func (f *fakeBackend) CheckContext(ctx context.Context, name string) (session.Health, error) {
	if name == "staging" {
		return session.Health{}, hint.With(errors.New("certificate has expired"), "renew it")
	}
	return session.Health{Context: name, User: "jane", Groups: []string{"dev"}, Took: 84 * time.Millisecond}, ctx.Err()
}

func (f *fakeBackend) Expiring() ([]enroll.Expiring, error) {
	return []enroll.Expiring{{Name: "prod-hsm", NotAfter: fakeNow().Add(9 * 24 * time.Hour), Due: true}}, nil
}

func (f *fakeBackend) Migration(_ context.Context, name string) (flowcontexts.Migration, error) {
	return flowcontexts.Migration{Context: flowcontexts.View{Name: name, UserKind: "key-file"}, KeyFile: "/home/jane/.kube/jane.key",
		Subject: csr.Subject{User: "jane", Groups: []string{"dev"}}}, nil
}

func (f *fakeBackend) KubeconfigHistory(context.Context) ([]kubeconfig.Step, error) {
	return []kubeconfig.Step{{ID: "2", Time: fakeNow().Add(-time.Hour), Title: "set prod-hsm", Done: true}, {ID: "1", Time: fakeNow().Add(-3 * time.Hour), Title: "set trial-hsm", Done: true}}, nil
}

func (f *fakeBackend) Renew(ctx context.Context, name string, _ enroll.RenewOptions, _ hsm.Prompter, report func(enrolling.Event)) (enrolling.Result, error) {
	report(enrolling.Event{Step: enrolling.StepApproval, State: enrolling.StepRunning, Message: "waiting for somebody to approve it"})
	select {
	case <-f.renewed:
	case <-ctx.Done():
		return enrolling.Result{}, ctx.Err()
	}
	return enrolling.Result{NotAfter: fakeNow().Add(90 * 24 * time.Hour)}, f.did("renew %s", name)
}

func (f *fakeBackend) PlanSet(_ context.Context, name string) (contexts.Change, error) {
	return fakeChange{}, nil
}

func (f *fakeBackend) PlanSigner(_ context.Context, name string) (contexts.Change, error) {
	return fakeChange{f, "signer of " + name}, nil
}

func (f *fakeBackend) PlanServer(_ context.Context, name, server string) (contexts.Move, error) {
	if f.unproven != "" {
		return contexts.Move{}, hint.With(flowcontexts.ErrUnproven, f.unproven)
	}
	return contexts.Move{Old: "https://old:6443", New: server, Host: "new:6443", Proof: "the enrolled authority's certificate",
		Apply: func(context.Context) error { return f.did("move %s to %s", name, server) }}, nil
}

func (f *fakeBackend) PlanUndo(_ context.Context, step string) (contexts.Change, error) {
	return fakeChange{f, "undo " + step}, nil
}

func (f *fakeBackend) PlanDrop(_ context.Context, name string) (contexts.Change, error) {
	return fakeChange{f, "drop " + name}, nil
}

func (f *fakeBackend) PlanRemoval(_ context.Context, name string) (contexts.Removal, error) {
	return contexts.Removal{Change: fakeChange{f, "unused"}, SameKey: []string{"other-hsm"},
		Apply: func(context.Context) error { return f.did("unenroll %s", name) }}, nil
}

func (f *fakeBackend) PlanUse(_ context.Context, name string) (contexts.Change, error) {
	return fakeChange{f, "use " + name}, nil
}

func (f *fakeBackend) PlanRemove(_ context.Context, name string) (contexts.Change, error) {
	return fakeChange{f, "remove " + name}, nil
}

func (f *fakeBackend) PlanRefresh(_ context.Context, name string) (contexts.Refresh, error) {
	return contexts.Refresh{Changes: []string{"server: https://old:6443, now https://new:6443"}, Unproven: f.unproven, Change: fakeChange{f, "unused"},
		Apply: func(context.Context) error { return f.did("follow %s", name) }}, nil
}

func (f *fakeBackend) Unlock(ctx context.Context, name string, p hsm.Prompter) error {
	if err := f.unlock(ctx, p); err != nil {
		return err
	}
	return f.did("unlock %s", name)
}

func (f *fakeBackend) Consent(context.Context, string) (consent.Policy, string, error) {
	return f.policy, "prod.example.com", nil
}

func (f *fakeBackend) PutConsent(_ context.Context, name string, p consent.Policy, _ hsm.Prompter) error {
	f.policy = p
	return f.did("policy of %s: %s %v", name, p.Mode, p.Rules)
}
