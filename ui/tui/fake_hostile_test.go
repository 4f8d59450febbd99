package tui

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/consent"
	flowcontexts "github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/deeds"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/tui/screen/contexts"
)

// hostileBackend answers with hostile texts.
type hostileBackend struct {
	*fakeBackend
	s string
}

func hostile(s string) *hostileBackend {
	f := newFake()
	withOurs(f)
	f.noRights = true
	f.unfinished = []enrolling.Progress{journal(f)}
	h := &hostileBackend{f, s}
	f.tokens = poisoned(f.tokens, s)
	for i := range f.tokens {
		f.tokens[i].Info.Serial = fmt.Sprint(i) + s
		for j := range f.tokens[i].Slots {
			f.tokens[i].Slots[j].URI.Object, f.tokens[i].Slots[j].ID = s, fmt.Sprint(j)+s
			f.tokens[i].Slots[j].Problem = "" // or nothing could be done with them
		}
	}
	f.problems = []hsm.Problem{{Source: s, Err: errors.New("failed: " + s)}}
	f.contexts = poisoned(f.contexts, s)
	for i := range f.contexts {
		f.contexts[i].Name += s
	}
	f.requests = poisoned(f.requests, s)
	for i := range f.requests {
		f.requests[i].Name += s
	}
	f.unfinished = poisoned(f.unfinished, s)
	f.notes = []string{s}
	return h
}

func (h *hostileBackend) BootstrapTokens(ctx context.Context, c string, reveal bool) ([]desk.BootstrapToken, []string, error) {
	all, _, err := h.fakeBackend.BootstrapTokens(ctx, c, reveal)
	return poisoned(all, h.s), []string{h.s, h.s}, err
}

func (h *hostileBackend) BreakGlassList() ([]desk.BreakGlassView, error) {
	all, err := h.fakeBackend.BreakGlassList()
	for i := range all {
		all[i].Name = h.s
	}
	return poisoned(all, h.s), err
}

func (h *hostileBackend) CheckContext(ctx context.Context, name string) (session.Health, error) {
	return session.Health{User: h.s, Groups: []string{h.s}, Took: time.Second}, nil
}

func (h *hostileBackend) KubeconfigHistory(ctx context.Context) ([]kubeconfig.Step, error) {
	all, err := h.fakeBackend.KubeconfigHistory(ctx)
	return poisoned(all, h.s), err
}

// hostileChange is a change whose difference is hostile.
type hostileChange struct{ fakeChange }

func (c hostileChange) Notes() []string { return []string{c.what} }
func (c hostileChange) Diff() string {
	return "--- " + c.what + "\n+++ " + c.what + "\n@@ -1 +1 @@\n-" + c.what + "\n+" + c.what + "\n"
}

func (h *hostileBackend) PlanUse(context.Context, string) (contexts.Change, error) {
	return hostileChange{fakeChange{h.fakeBackend, "use " + h.s}}, nil
}

func (h *hostileBackend) PlanRefresh(context.Context, string) (contexts.Refresh, error) {
	return contexts.Refresh{Changes: []string{h.s}, Change: hostileChange{fakeChange{h.fakeBackend, h.s + "."}}, Apply: func(context.Context) error { return errors.New(h.s) }}, nil
}

func (h *hostileBackend) Consent(context.Context, string) (consent.Policy, string, error) {
	return consent.Policy{Mode: consent.Rules, Rules: []consent.Rule{{Verbs: []string{h.s}}}}, h.s, nil
}

func (h *hostileBackend) Review(ctx context.Context, o enrolling.Options) (enroll.Review, error) {
	r, err := h.fakeBackend.Review(ctx, o)
	r.Server, r.Notes, r.Commands, r.KubeconfigDiff, r.KubeconfigFile = h.s, []string{h.s}, []string{"kubehsm " + h.s}, hostileChange{fakeChange{nil, h.s}}.Diff(), h.s
	r.Forecast = []csr.Point{{Reason: h.s}}
	return r, err
}

func (h *hostileBackend) Complete(ctx context.Context, o enrolling.Options) (enrolling.Options, error) {
	if o.User == "" {
		o.User = "jane" + h.s
	}
	return h.fakeBackend.Complete(ctx, o)
}

func (h *hostileBackend) Enroll(ctx context.Context, o enrolling.Options, p hsm.Prompter, report func(enrolling.Event)) (enrolling.Result, error) {
	for _, s := range enrolling.Steps() {
		report(enrolling.Event{Step: s, State: enrolling.StepDone, Message: h.s})
	}
	return poisoned(fakeResult(o, false), h.s), nil
}

func (h *hostileBackend) Request(ctx context.Context, c, name string, look request.LookOptions) (request.View, error) {
	v, err := h.fakeBackend.Request(ctx, c, name, look)
	v = poisoned(v, h.s)
	v.Refusals = nil // or it could not be approved
	return v, err
}

func (h *hostileBackend) OwnRequests(ctx context.Context, c string) ([]request.View, error) {
	all, err := h.fakeBackend.OwnRequests(ctx, c)
	return poisoned(all, h.s), err
}

func (h *hostileBackend) WatchRequests(ctx context.Context, c string, f request.Filter) (iter.Seq2[request.Event, error], error) {
	return h.fakeBackend.WatchRequests(ctx, c, f)
}

// Decide fails in a cluster's words.
func (h *hostileBackend) Decide(context.Context, string, request.View, request.DecideOptions) (request.View, error) {
	return request.View{}, hint.With(errors.New("the cluster says: "+h.s), h.s)
}

func (h *hostileBackend) Deeds() ([]deeds.Deed, error) {
	all, err := h.fakeBackend.Deeds()
	return poisoned(all, h.s), err
}

func (h *hostileBackend) LookUpRevocation(ctx context.Context, c, user string, groups []string) (desk.Revocation, error) {
	r, err := h.fakeBackend.LookUpRevocation(ctx, c, user, groups)
	return poisoned(r, h.s), err
}

func (h *hostileBackend) CheckRBAC(ctx context.Context, c string, sets []string) ([]desk.RBACObject, error) {
	all, err := h.fakeBackend.CheckRBAC(ctx, c, sets)
	return poisoned(all, h.s), err
}

func (h *hostileBackend) AttestKey(ctx context.Context, u hsm.URI, roots []*x509.Certificate) (token.Attestation, error) {
	a, err := h.fakeBackend.AttestKey(ctx, u, roots)
	a.Statement = poisoned(a.Statement, h.s)
	return a, err
}

func (h *hostileBackend) Renew(_ context.Context, _ string, _ enroll.RenewOptions, _ hsm.Prompter, report func(enrolling.Event)) (enrolling.Result, error) {
	report(enrolling.Event{Step: enrolling.StepApproval, State: enrolling.StepRunning, Message: h.s})
	return enrolling.Result{Notes: []string{h.s}}, nil
}

func (h *hostileBackend) Migration(context.Context, string) (flowcontexts.Migration, error) {
	return flowcontexts.Migration{}, errors.New(h.s)
}

func (h *hostileBackend) Loss(context.Context, hsm.URI) (token.Loss, error) {
	l, err := h.fakeBackend.Loss(context.Background(), h.tokens[1].Info.URI())
	l.Enrollments = []string{h.s, h.s}
	return l, err
}
