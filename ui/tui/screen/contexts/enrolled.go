package contexts

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
	"github.com/kubehsm/kubehsm/ui/verb"
)

func (d deeds) unlock(c contexts.View) tea.Cmd {
	return screen.Operate(UnlockOf(d.Agent, c.Enrollment))
}

// UnlockOf is [Unlock] for the enrollment called name.
func UnlockOf(agent session.Agent, name string) screen.Operation {
	return Unlock(verb.Line("unlock", verb.Argument(name)), agent, func(context.Context) (string, error) { return name, nil })
}

// Unlock is the operation that unlocks the token of the enrollment that which names.
func Unlock(command string, agent session.Agent, which func(context.Context) (string, error)) screen.Operation {
	return screen.Operation{Title: "Unlock the token", Command: command,
		Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			name, err := which(ctx)
			if err != nil {
				return screen.Report{}, err
			}
			return screen.Report{Said: "the token of " + name + " is unlocked"}, agent.Unlock(ctx, name, p)
		}}
}

// follow moves the enrollment to its cluster's new address: the cluster is asked for it, or the
// person names it if the old address no longer answers.
func (d deeds) follow(c contexts.View) tea.Cmd {
	server := ""
	form := []verb.Option{{Flag: "server", Into: &server, Label: "Address", Empty: "ask the cluster",
		Note: "Leave it empty to ask the cluster for its address. If the old address no longer answers, give the new " +
			"one: https://HOST:PORT."}}
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewOptions(d.Keys, "Update the cluster",
		"The entry changes only if the server proves to be the enrolled cluster.", form, func(*widget.Form) tea.Cmd {
			if server != "" {
				return d.followTo(c, server)
			}
			return d.ask(c)
		})})
}

func (d deeds) followTo(c contexts.View, server string) tea.Cmd {
	name := c.Enrollment
	return screen.Change("Update the cluster",
		verb.Line("kubeconfig refresh", verb.Argument(name), verb.Flag("server", server)), name+" is updated",
		func(ctx context.Context, p hsm.Prompter) error {
			to, err := d.Contexts.MoveServer(ctx, name, server)
			if err != nil {
				return err
			}
			if err := to.Prove(ctx); err != nil {
				return err
			}
			if err := screen.Sure(ctx, p, hsm.ConfirmPrompt{
				Question: "Use the address " + to.Host + " for " + name + " from now on?",
				Detail: "-server: " + to.Old + "\n+server: " + to.New + "\nThe server there has " + to.Proof() + ".\n" +
					contexts.KeySigns(name),
			}); err != nil {
				return err
			}
			return to.ApplyAll(ctx, p)
		})
}

func (d deeds) ask(c contexts.View) tea.Cmd {
	return screen.Operate(screen.Operation{Title: "Update the cluster",
		Command: verb.Line("kubeconfig refresh", verb.Argument(c.Enrollment)), Writes: true,
		Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			r, err := d.Contexts.Refresh(ctx, c.Enrollment)
			if err != nil {
				return screen.Report{}, err
			}
			if !r.Changed() {
				return screen.Report{Said: "the cluster is where it was"}, nil
			}
			if r.Unproven != "" {
				return screen.Report{}, hint.With(contexts.ErrUnproven, r.Unproven+"; ask the cluster's administrators")
			}
			var changes strings.Builder
			for _, x := range r.Changes {
				fmt.Fprintf(&changes, "%s: %s, now %s\n", x.Field, x.Old, x.New)
			}
			if err := sure(ctx, p, "Update the enrollment?", r.Kubeconfig, changes.String()+contexts.KeySigns(r.Name)+"\n"); err != nil {
				return screen.Report{}, err
			}
			return screen.Report{Said: c.Enrollment + " is updated"}, r.Apply(ctx, false, p)
		}})
}

func (d deeds) consent(c contexts.View) tea.Cmd {
	return screen.Operate(screen.Operation{Title: "What needs your consent",
		Command: verb.Line("consent show", verb.Argument(c.Enrollment)),
		Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
			now, err := d.Agent.Consent(c.Enrollment)
			if err != nil {
				return screen.Report{}, err
			}
			return screen.Report{Message: d.consentForm(now)}, nil
		}})
}

func (d deeds) consentForm(c session.Consent) dialog.OpenMsg {
	name, now := c.Enrollment.Name, c.Policy()
	mode, rules := string(cmp.Or(now.Mode, consent.Session)), []string(nil)
	for _, r := range now.Rules {
		rules = append(rules, r.String())
	}
	form := present.ConsentOptions(&mode, &rules)
	title := "Which requests to " + c.Enrollment.Host() + " need your consent?"
	about := "No kubeconfig can weaken it. Current sessions end. The key signs the record, which requires the PIN."
	if also := present.ConsentAlso(c); also != "" {
		about = also + "\n" + about
	}
	signed, notice := present.ConsentSigned(c), ""
	if c.Problem != nil {
		notice = signed.Words + " Choose a policy here to have the key sign it."
	} else {
		about = signed.Words + "\n" + about
	}
	return dialog.OpenMsg{Dialog: dialog.NewOptions(d.Keys, title, about, form,
		func(f *widget.Form) tea.Cmd {
			if mode != string(consent.Rules) {
				rules = nil
			}
			p, err := consent.ParsePolicy(mode, rules)
			if err != nil {
				f.Field("rule").Problem = ui.Message(err)
				return nil
			}
			if c.Settled(p) {
				return screen.Send(screen.ToastMsg{Text: "nothing to change"})
			}
			return screen.Change("Set the policy", verb.Line("consent set", append([]verb.Option{verb.Argument(name)}, form...)...), name+": "+present.ConsentWords(p.Mode),
				func(ctx context.Context, asks hsm.Prompter) error {
					_, err := d.Agent.SetConsent(ctx, name, p, asks)
					return err
				})
		}).Noticed(notice)}
}
