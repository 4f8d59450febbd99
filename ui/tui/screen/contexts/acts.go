package contexts

import (
	"context"
	"iter"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
	"github.com/kubehsm/kubehsm/ui/verb"
)

// Acts implements [screen.Actor]: what can be done with the context under the cursor.
func (m *Model) Acts() screen.Acts {
	c, ok := m.list.Selected()
	return m.actsOf(c, ok)
}

// Finds implements [screen.Finder].
func (m *Model) Finds(time.Time) iter.Seq[screen.Found] {
	return func(yield func(screen.Found) bool) {
		for _, c := range m.Store.Contexts.Value {
			if !yield(screen.Found{Name: c.Name, Words: "context " + c.Cluster, Acts: m.actsOf(c, true),
				Select: func() { m.list.Select(c.Name) }}) {
				return
			}
		}
	}
}

func (m *Model) actsOf(c contexts.View, ok bool) screen.Acts {
	do := deeds{m.Services}
	none, notOurs, ours := "", "", ""
	switch {
	case !ok:
		none = "no context is selected"
		notOurs, ours = none, none
	case c.Ours:
		ours = "it signs in with a token already"
	default:
		notOurs = "it is not kubehsm's"
	}
	if c.UserKind == string(kubeconfig.UserExternalSigner) {
		ours = "it signs in with a token already"
	}
	current := screen.Because(none, screen.When(c.Current, "it is the current one"))
	return screen.Acts{
		screen.On(screen.Action{Key: keys.Letter("m", "move to a token"), Reason: ours, Writes: true}, "kubeconfig migrate",
			func() tea.Cmd { return do.migrate(c) }),
		screen.On(screen.Action{Key: keys.Letter("s", "make current"), Reason: current, Writes: true}, "kubeconfig use",
			func() tea.Cmd { return do.use(c) }),
		screen.On(screen.Action{Key: keys.Letter("v", "requests there"), Reason: none}, "", func() tea.Cmd {
			return screen.Send(screen.GoMsg{To: screen.Requests, Argument: c.Name})
		}),
		screen.On(screen.Action{Key: keys.Letter("w", "renew"), Reason: notOurs, Writes: true}, "certificate renew",
			func() tea.Cmd { return screen.Operate(Renew(m.Renewer, c.Enrollment)) }),
		screen.On(screen.Action{Key: keys.Letter("u", "undo"), Writes: true}, "kubeconfig undo", do.undo),
		screen.On(screen.Action{Key: m.Keys.Unlock, Reason: notOurs, Quiet: true}, "unlock",
			func() tea.Cmd { return do.unlock(c) }),
		screen.On(screen.Action{Key: keys.Letter("y", "consent policy"), Reason: notOurs, Quiet: true},
			"consent show; consent set", func() tea.Cmd { return do.consent(c) }),
		screen.On(screen.Action{Key: keys.Letter("p", "repair the entry"), Reason: notOurs, Writes: true, Quiet: true},
			"kubeconfig set", func() tea.Cmd { return do.repair(c) }),
		screen.On(screen.Action{Key: keys.Letter("E", "entry for external signers"), Reason: notOurs, Writes: true,
			Quiet: true}, "kubeconfig set", func() tea.Cmd { return do.signer(c) }),
		screen.On(screen.Action{Key: keys.Letter("t", "add a spare token"), Reason: notOurs, Writes: true, Quiet: true},
			"enroll", func() tea.Cmd { return do.spare(c) }),
		screen.On(screen.Action{Key: keys.Letter("F", "update the cluster"), Reason: notOurs, Writes: true, Quiet: true},
			"kubeconfig refresh", func() tea.Cmd { return do.follow(c) }),
		screen.On(screen.Action{Key: keys.As(m.Keys.Delete, "remove"), Reason: none, Writes: true, Quiet: true},
			"kubeconfig remove; unenroll", func() tea.Cmd { return do.delete(c) }),
		screen.On(screen.Action{Key: keys.As(m.Keys.Copy, "copy name"), Reason: none, Quiet: true}, "", func() tea.Cmd {
			return screen.Send(screen.CopyMsg{What: "name", Text: c.Name})
		}),
		screen.On(screen.Action{Key: m.Keys.Command, Quiet: true}, "",
			func() tea.Cmd { return screen.Send(m.commands(c, ok)) }),
	}
}

func (m *Model) commands(c contexts.View, ok bool) screen.CommandMsg {
	lines := []string{"kubehsm kubeconfig list"}
	if ok {
		name := shell.Quote(c.Name)
		lines = append(lines, "kubectl --context "+name+" auth whoami")
		if c.Ours {
			lines = append(lines, verb.Line("consent show", verb.Argument(c.Enrollment)))
		} else {
			lines = append(lines, "kubehsm kubeconfig migrate "+name)
		}
		lines = append(lines, "kubehsm kubeconfig use "+name)
	}
	return screen.CommandMsg{Title: present.SameTitle, Lines: lines}
}

type deeds struct{ Services }

// migrate opens the wizard for the user and groups that the context signs in as.
func (d deeds) migrate(c contexts.View) tea.Cmd {
	return screen.Operate(screen.Operation{Title: "Look at the credential", Writes: true,
		Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
			found, err := d.Contexts.Migration(ctx, c.Name)
			if err != nil {
				return screen.Report{}, err
			}
			var o enrolling.Options
			found.Fill(&o)
			return screen.Report{Message: screen.OpenMsg{Screen: d.Enroll(o)}, Title: "When the new context works",
				Lines: found.Remarks()}, nil
		}})
}

// Renew asks for a new certificate for the enrollment called name, after a yes; the steps are told
// while it runs.
func Renew(r enroll.Renewer, name string) screen.Operation {
	return screen.Operation{Title: "Renew " + name, Writes: true,
		Command: verb.Line("certificate renew", verb.Argument(name)),
		Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			now := time.Now()
			x, begun, err := r.Of(name, now)
			if err != nil {
				return screen.Report{}, err
			}
			if err := screen.Sure(ctx, p, present.RenewQuestion(x, begun, now)); err != nil {
				return screen.Report{}, err
			}
			r, err := r.Renew(ctx, name, enroll.RenewOptions{}, p, screen.Steps(ctx))
			return screen.Report{Said: present.Renewed(r, time.Now()), Title: "Renewed, with notes", Lines: r.Notes}, err
		}}
}

func change(title, command, said, question string, plan func(context.Context) (*contexts.Change, error)) tea.Cmd {
	return screen.Operate(screen.Operation{Title: title, Command: command, Writes: true,
		Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			c, err := plan(ctx)
			if err != nil {
				return screen.Report{}, err
			}
			if c.Empty() {
				return screen.Report{Said: "nothing to change"}, nil
			}
			if err := sure(ctx, p, question, c, ""); err != nil {
				return screen.Report{}, err
			}
			return screen.Report{Said: said}, c.Apply(ctx)
		}})
}

func sure(ctx context.Context, p hsm.Prompter, question string, c *contexts.Change, detail string) error {
	for _, n := range c.Notes() {
		detail += n + "\n"
	}
	return screen.Sure(ctx, p, hsm.ConfirmPrompt{Question: question, Detail: detail + c.Diff()})
}

func (d deeds) use(c contexts.View) tea.Cmd {
	return change("Make it current", verb.Line("kubeconfig use", verb.Argument(c.Name)),
		"kubectl uses "+c.Name+" now; u undoes it", "Write this?",
		func(ctx context.Context) (*contexts.Change, error) { return d.Contexts.Use(ctx, c.Name) })
}

func (d deeds) repair(c contexts.View) tea.Cmd {
	return change("Repair the entry", verb.Line("kubeconfig set", verb.Argument(c.Enrollment)), "the entry is as it should be",
		"Write this?",
		func(ctx context.Context) (*contexts.Change, error) {
			return d.Contexts.Set(ctx, c.Enrollment, false, false)
		})
}

// signer writes the entry for clients with the auth provider externalSigner; repair undoes that.
func (d deeds) signer(c contexts.View) tea.Cmd {
	return change("Write the entry", verb.Line("kubeconfig set", verb.Argument(c.Enrollment),
		verb.Flag("mode", contexts.ModeExternalSigner)), "the entry is for clients that ask a signer themselves; u undoes it", "Write this?",
		func(ctx context.Context) (*contexts.Change, error) {
			return d.Contexts.SetSigner(ctx, c.Enrollment, false, false)
		})
}

func (d deeds) undo() tea.Cmd {
	return change("Undo", "kubehsm kubeconfig undo", "the latest change is undone", "Undo this?",
		func(ctx context.Context) (*contexts.Change, error) { return d.Contexts.Undo(ctx) })
}

func (d deeds) delete(c contexts.View) tea.Cmd {
	if !c.Ours {
		return d.drop(c)
	}
	entries := []dialog.Entry{
		{Name: "the context only: the enrollment stays", Message: d.drop(c)()},
		{Name: "the enrollment " + clean(c.Enrollment) + ", with its context", Message: d.remove(c, "")()},
	}
	if len(c.Spares) > 0 { // such as a token that was lost
		for _, name := range append([]string{c.Enrollment}, c.Spares...) {
			entries = append(entries, dialog.Entry{Name: "the key of " + clean(name) + " alone", Message: d.remove(c, name)()})
		}
	}
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewChoice(d.Keys, "What do you want to remove?", entries)})
}

func (d deeds) spare(c contexts.View) tea.Cmd {
	return screen.Send(screen.OpenMsg{Screen: d.Enroll(enrolling.Options{Spare: true, Name: c.Enrollment})})
}

// drop removes the context only. The enrollment of a context of kubehsm stays.
func (d deeds) drop(c contexts.View) tea.Cmd {
	command, plan := "kubectl config delete-context "+shell.Quote(c.Name), d.Contexts.Drop
	if c.Ours && c.Name == c.Enrollment {
		command, plan = verb.Line("kubeconfig remove", verb.Argument(c.Name)), d.Contexts.Remove
	}
	return change("Remove the context", command, "the context is removed; u restores it", "Remove "+c.Name+"?",
		func(ctx context.Context) (*contexts.Change, error) { return plan(ctx, c.Name) })
}

// remove removes the enrollment of a context, or only the key of the enrollment called alone.
func (d deeds) remove(c contexts.View, alone string) tea.Cmd {
	what, command := c.Enrollment, verb.Line("unenroll", verb.Argument(c.Enrollment))
	var key func(enrollment.Enrollment) bool
	if alone != "" {
		what, command = "the key of "+alone, command+" --token URI"
		key = func(e enrollment.Enrollment) bool { return e.Name == alone }
	}
	return screen.Operate(screen.Operation{Title: "Remove the enrollment", Command: command, Writes: true,
		Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			u, err := d.Contexts.Unenrollment(ctx, c.Enrollment, key)
			if err != nil {
				return screen.Report{}, err
			}
			detail := strings.Join(widget.PlainSections(present.Unenroll(u)), "\n") + "\n"
			if err := sure(ctx, p, present.UnenrollQuestion(u), u.Kubeconfig, detail); err != nil {
				return screen.Report{}, err
			}
			return screen.Report{Said: what + " is removed"}, d.Contexts.Unenroll(ctx, u, p)
		}})
}
