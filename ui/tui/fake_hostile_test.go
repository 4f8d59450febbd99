package tui

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"iter"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/deeds"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/flow/token"
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

// hostileDiff is a difference whose lines are hostile.
func hostileDiff(s string) string {
	return "--- " + s + "\n+++ " + s + "\n@@ -1 +1 @@\n-" + s + "\n+" + s + "\n"
}

func (h *hostileBackend) Review(ctx context.Context, o enrolling.Options) (enroll.Review, error) {
	r, err := h.fakeBackend.Review(ctx, o)
	r.Server, r.Notes, r.Commands, r.KubeconfigDiff, r.KubeconfigFile = h.s, []string{h.s}, []string{"kubehsm " + h.s}, hostileDiff(h.s), h.s
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

func (h *hostileBackend) Loss(context.Context, hsm.URI) (token.Loss, error) {
	l, err := h.fakeBackend.Loss(context.Background(), h.tokens[1].Info.URI())
	l.Enrollments = []string{h.s, h.s}
	return l, err
}
