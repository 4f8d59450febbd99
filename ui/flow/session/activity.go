// Package session holds the use cases of the agent and of what signs in through it:
// its state, its locks, its log, how a service manager starts it, and the consent
// policy of an enrollment.
package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Agent is the agent of this user, whether it runs or not.
type Agent struct{ Env *env.Env }

// withAgent calls f with the running agent; [client.ErrNotRunning] if none runs.
func (a Agent) withAgent(ctx context.Context, f func(*client.Client) error) error {
	c, err := client.Dial(ctx, a.Env.Dirs)
	if err != nil {
		return err
	}
	return errors.Join(f(c), c.Close())
}

// AgentStatus describes the running agent; [client.ErrNotRunning] if none runs.
func (a Agent) AgentStatus(ctx context.Context) (s message.Status, err error) {
	err = a.withAgent(ctx, func(c *client.Client) (err error) {
		s, err = c.Status(ctx)
		return err
	})
	return s, err
}

// LockAgent has the running agent forget every PIN and cut every connection. say, which may be
// nil, is told what had to be ended because it did not answer.
func (a Agent) LockAgent(ctx context.Context, say func(sentence string)) error {
	return a.insist(ctx, client.Lock, say)
}

// Unlock has the agent, which is started if none runs, unlock the token of the
// enrollment called name. p is asked for the PIN.
func (a Agent) Unlock(ctx context.Context, name string, p hsm.Prompter) error {
	return a.UnlockToken(ctx, name, hsm.URI{}, p)
}

// UnlockToken is [Agent.Unlock] for an enrollment that may not be there yet, whose key will be on
// the token that u names. p has the PIN at hand.
func (a Agent) UnlockToken(ctx context.Context, name string, u hsm.URI, p hsm.Prompter) error {
	c, err := client.EnsureProgram(ctx, a.Env.Dirs, client.Program{Path: a.Env.Executable, Version: a.Env.Version})
	if err != nil {
		return err
	}
	c.Waiting, c.Given = a.Env.WaitingOf(ctx), u.Scheme != ""
	return errors.Join(c.UnlockToken(ctx, name, u, p), c.Close())
}

// StopAgent ends the running agent; say is as in [Agent.LockAgent].
func (a Agent) StopAgent(ctx context.Context, say func(sentence string)) error {
	return a.insist(ctx, client.Stop, say)
}

func (a Agent) insist(
	ctx context.Context,
	do func(context.Context, home.Dirs, func(ask.Wait) (done func())) (client.Ended,
		error),
	say func(string),
) error {
	if say == nil {
		say = func(string) {}
	}
	ended, err := do(ctx, a.Env.Dirs, a.Env.WaitingOf(ctx))
	for _, u := range ended.Tokens {
		say("The process that held the token " + u.String() + " did not answer and was ended.")
	}
	if ended.Agent == 0 {
		return err
	}
	say(fmt.Sprintf("The agent (process %d) did not answer and was ended.", ended.Agent))
	return errors.Join(err, a.settleCards(ctx, say))
}

// settleCards sees to it that no card of an enrollment has a PIN verified that an
// agent left there which was ended. Other tokens end a login with its process.
func (a Agent) settleCards(ctx context.Context, say func(string)) error {
	all, err := a.Env.Enrollments().List()
	errs := []error{err}
	seen := map[string]bool{}
	for _, en := range all {
		u := en.Key.TokenOnly()
		if !u.Kind().LoginStays || seen[u.String()] {
			continue
		}
		seen[u.String()] = true
		late := time.AfterFunc(time.Second, func() {
			say("Waiting for the reader, to make the card " + u.Serial +
				" forget its PIN.")
		})
		err := worker.Settle(ctx, a.Env.Drivers.Open, u)
		late.Stop()
		if err != nil {
			errs = append(errs, hint.With(fmt.Errorf("the card %s may still have its PIN verified: %w", u.Serial, err),
				"unplug the card, then plug it in again"))
		}
	}
	return errors.Join(errs...)
}

// OfferResponder offers p to the running agent for what comes up while requests
// run and no terminal can be asked; see [client.Client.Respond].
func (a Agent) OfferResponder(ctx context.Context, p hsm.Prompter, ready func()) error {
	return a.withAgent(ctx, func(c *client.Client) error { return c.Respond(ctx, p, ready) })
}

// Audit calls each with the agent's records that f takes, the oldest first; see
// [audit.Read].
func (a Agent) Audit(ctx context.Context, f audit.Filter, each func(audit.Record) error) (damaged int, err error) {
	return audit.Read(ctx, audit.Path(a.Env.Dirs), f, each)
}
