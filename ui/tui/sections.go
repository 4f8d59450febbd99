package tui

import (
	"context"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	flowcontexts "github.com/kubehsm/kubehsm/ui/flow/contexts"
	flowdesk "github.com/kubehsm/kubehsm/ui/flow/desk"
	flowdoctor "github.com/kubehsm/kubehsm/ui/flow/doctor"
	flowenroll "github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	flowtoken "github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/screen/activity"
	"github.com/kubehsm/kubehsm/ui/tui/screen/contexts"
	"github.com/kubehsm/kubehsm/ui/tui/screen/desk"
	"github.com/kubehsm/kubehsm/ui/tui/screen/doctor"
	"github.com/kubehsm/kubehsm/ui/tui/screen/enroll"
	"github.com/kubehsm/kubehsm/ui/tui/screen/home"
	"github.com/kubehsm/kubehsm/ui/tui/screen/requests"
	"github.com/kubehsm/kubehsm/ui/tui/screen/token"
	"github.com/kubehsm/kubehsm/ui/tui/screen/tokens"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/task"
)

type shared struct {
	flow     *env.Env
	runner   *task.Runner
	store    *store.Store
	keys     keys.Map
	prompter ask.Func      // asker by dialogs
	dialogID func() uint64 // number of a dialog that another opens
}

func (s shared) tools() screen.Tools { return screen.Tools{Runner: s.runner, Keys: s.keys} }

type factory struct {
	shared
	draft enroll.Draft      // the answers typed into the wizard
	given enrolling.Options // options for the first enrollment; zero once that is done
}

// unlock asks for the PIN again even if the person declined earlier.
func (f *factory) unlock(ctx context.Context, kubeContext string, p hsm.Prompter) error {
	e, err := flowcontexts.Meant(ctx, f.flow, "", kubeContext)
	if err != nil {
		return err
	}
	return session.Agent{Env: f.flow}.Unlock(ctx, e.Name, p)
}

func (f *factory) sections() []*section {
	return []*section{
		{id: screen.Home, title: "Home", make: func() screen.Screen {
			agent := session.Agent{Env: f.flow}
			return home.New(home.Services{Tools: f.tools(), Store: f.store,
				Renew:  f.renew,
				Unlock: func(name string) screen.Operation { return contexts.UnlockOf(agent, name) },
				Lock:   func() screen.Operation { return activity.Lock(agent) },
				Enroll: func(o enrolling.Options) screen.Screen { return f.wizard(enroll.Start{Options: o}) }})
		}},
		{id: screen.Tokens, title: "Tokens", make: func() screen.Screen {
			return tokens.New(f.store, f.keys, tokens.Openers{Enroll: f.wizardFor, Token: f.token})
		}},
		{id: screen.Contexts, title: "Contexts", make: func() screen.Screen {
			return contexts.New(contexts.Services{Tools: f.tools(), Contexts: flowcontexts.New(f.flow),
				Renewer: flowenroll.NewRenewer(f.flow),
				Agent:   session.Agent{Env: f.flow}, Store: f.store,
				Enroll: func(o enrolling.Options) screen.Screen { return f.wizard(enroll.Start{Options: o}) }})
		}},
		{id: screen.Requests, title: "Requests", make: func() screen.Screen {
			return requests.New(requests.Services{Tools: f.tools(), Requests: request.NewRequests(f.flow),
				Own:       request.NewOwn(f.flow),
				Approvals: flowdesk.NewApprovals(f.flow),
				Unlock:    f.unlock,
				Quiet:     requests.Quiet{Requests: request.NewRequests(f.flow.Quiet()), Own: request.NewOwn(f.flow.Quiet())}})
		}},
		{id: screen.Activity, title: "Activity", make: func() screen.Screen {
			return activity.New(f.tools(), session.Agent{Env: f.flow})
		}},
		{id: screen.HelpDesk, title: "Help desk", make: func() screen.Screen {
			return desk.New(desk.Services{Tools: f.tools(), Store: f.store, Tickets: flowdesk.NewTickets(f.flow),
				Bootstrap:  flowdesk.NewBootstrapTokens(f.flow),
				Unlock:     f.unlock,
				Quiet:      flowdesk.NewBootstrapTokens(f.flow.Quiet()),
				BreakGlass: flowdesk.NewBreakGlass(f.flow), Revocations: flowdesk.NewRevocations(f.flow),
				Stopping: flowdesk.NewStopping(f.flow),
				Trial:    flowdesk.NewTrial(f.flow),
				Enroller: flowenroll.NewEnroller(f.flow)})
		}},
		{id: screen.Doctor, title: "Doctor", make: func() screen.Screen {
			return doctor.New(f.tools(), flowdoctor.Options{Env: f.flow, Online: true})
		}},
	}
}

func (f *factory) renew(name string) screen.Operation {
	return contexts.Renew(flowenroll.NewRenewer(f.flow), name)
}

func (f *factory) wizard(start enroll.Start) screen.Screen {
	if o := start.Options; o.Name == "" && o.Context == "" && o.Join == nil {
		start.Options = f.given
	}
	return enroll.New(enroll.Services{Tools: f.tools(), Enroller: flowenroll.NewEnroller(f.flow),
		Joins: flowenroll.NewJoins(f.flow), Renew: f.renew,
		Store: f.store, Prompter: f.prompter, Draft: &f.draft}, start)
}

func (f *factory) wizardFor(token *hsm.View, slot *hsm.Slot) screen.Screen {
	return f.wizard(enroll.Start{Token: token, Slot: slot})
}

func (f *factory) token(v hsm.View, slot *hsm.Slot) screen.Screen {
	return token.New(token.Services{Tools: f.tools(), Tokens: flowtoken.Tokens{Env: f.flow},
		TokenKeys: flowtoken.Keys{Env: f.flow},
		Requests:  request.NewOwn(f.flow), Store: f.store, Enroll: f.wizardFor}, v, slot)
}
