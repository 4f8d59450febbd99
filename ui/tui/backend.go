package tui

import (
	"context"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/consent"
	flowcontexts "github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/tui/screen/contexts"
	"github.com/kubehsm/kubehsm/ui/tui/screen/desk"
	"github.com/kubehsm/kubehsm/ui/tui/screen/enroll"
	"github.com/kubehsm/kubehsm/ui/tui/screen/requests"
	"github.com/kubehsm/kubehsm/ui/tui/screen/token"
	"github.com/kubehsm/kubehsm/ui/tui/store"
)

// Backend is what the terminal UI needs of the use cases; see [FromEnv].
type Backend interface {
	store.Source
	enroll.Backend
	token.Backend
	requests.Backend
	contexts.Backend
	desk.Backend
	// AskBy has p asked for what no operation asks itself, such as a PIN to sign
	// in to a cluster with.
	AskBy(p hsm.Prompter)
	// OfferPerson offers p to the agent until ctx ends or the agent goes.
	OfferPerson(ctx context.Context, p hsm.Prompter, ready func()) error
}

// FromEnv returns the use cases as they are. e is copied.
func FromEnv(e *env.Env) Backend {
	own := *e
	return &backend{Env: &own, Agent: session.Agent{Env: &own}}
}

type backend struct {
	*env.Env
	session.Agent
}

// AskBy implements [Backend]. It is called before anything else is.
func (b *backend) AskBy(p hsm.Prompter) { b.Prompter, b.Waiting = p, waits }

// Contexts implements [store.Source].
func (b *backend) Contexts(ctx context.Context) ([]flowcontexts.View, error) {
	return flowcontexts.New(b.Env).List(ctx)
}

// Migration implements [contexts.Backend].
func (b *backend) Migration(ctx context.Context, kubeContext string) (flowcontexts.Migration, error) {
	return flowcontexts.New(b.Env).Migration(ctx, kubeContext)
}

// KubeconfigHistory implements [contexts.Backend].
func (b *backend) KubeconfigHistory(ctx context.Context) ([]kubeconfig.Step, error) {
	return flowcontexts.New(b.Env).History(ctx)
}

// Tokens implements [store.Source]. A library that hangs keeps no token from the
// screen.
func (b *backend) Tokens(ctx context.Context) ([]hsm.View, []hsm.Problem, error) {
	return b.tokens().ListNow(ctx)
}

// PlanSet implements [contexts.Backend].
func (b *backend) PlanSet(ctx context.Context, name string) (contexts.Change, error) {
	return flowcontexts.New(b.Env).Set(ctx, name, false, false)
}

// PlanSigner implements [contexts.Backend].
func (b *backend) PlanSigner(ctx context.Context, name string) (contexts.Change, error) {
	return flowcontexts.New(b.Env).SetSigner(ctx, name, false, false)
}

// PlanUndo implements [contexts.Backend].
func (b *backend) PlanUndo(ctx context.Context, step string) (contexts.Change, error) {
	return flowcontexts.New(b.Env).Undo(ctx, step)
}

// PlanDrop implements [contexts.Backend].
func (b *backend) PlanDrop(ctx context.Context, name string) (contexts.Change, error) {
	return flowcontexts.New(b.Env).Drop(ctx, name)
}

// PlanUse implements [contexts.Backend].
func (b *backend) PlanUse(ctx context.Context, name string) (contexts.Change, error) {
	return flowcontexts.New(b.Env).Use(ctx, name)
}

// PlanRemove implements [contexts.Backend].
func (b *backend) PlanRemove(ctx context.Context, name string) (contexts.Change, error) {
	return flowcontexts.New(b.Env).Remove(ctx, name)
}

// PlanRefresh implements [contexts.Backend].
func (b *backend) PlanRefresh(ctx context.Context, name string) (contexts.Refresh, error) {
	r, err := flowcontexts.New(b.Env).Refresh(ctx, name)
	if err != nil {
		return contexts.Refresh{}, err
	}
	out := contexts.Refresh{Unproven: r.Unproven, Change: r.Kubeconfig, Apply: func(ctx context.Context) error { return r.Apply(ctx, false) }}
	for _, c := range r.Changes {
		out.Changes = append(out.Changes, fmt.Sprintf("%s: %s, now %s", c.Field, c.Old, c.New))
	}
	return out, nil
}

// PlanServer implements [contexts.Backend].
func (b *backend) PlanServer(ctx context.Context, name, server string) (contexts.Move, error) {
	m, err := flowcontexts.New(b.Env).MoveServer(ctx, name, server)
	if err == nil {
		err = m.Prove(ctx)
	}
	if err != nil {
		return contexts.Move{}, err
	}
	return contexts.Move{Old: m.Old, New: m.New, Host: m.Host, Proof: m.Proof(), Apply: m.ApplyAll}, nil
}

// PutConsent implements [contexts.Backend].
func (b *backend) PutConsent(ctx context.Context, name string, p consent.Policy, asks hsm.Prompter) error {
	_, err := b.SetConsent(ctx, name, p, asks)
	return err
}

// PlanRemoval implements [contexts.Backend].
func (b *backend) PlanRemoval(ctx context.Context, name string) (contexts.Removal, error) {
	u, err := flowcontexts.New(b.Env).Unenrollment(ctx, name)
	return contexts.Removal{Change: u.Kubeconfig, SameKey: u.SameKey, Apply: func(ctx context.Context) error { return flowcontexts.New(b.Env).Unenroll(ctx, u) }}, err
}
