package tui

import (
	"context"

	"github.com/kubehsm/kubehsm/hsm"
	flowcontexts "github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/session"
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

// Tokens implements [store.Source]. A library that hangs keeps no token from the
// screen.
func (b *backend) Tokens(ctx context.Context) ([]hsm.View, []hsm.Problem, error) {
	return b.tokens().ListNow(ctx)
}
