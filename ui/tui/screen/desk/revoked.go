package desk

import (
	"context"
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// revoked chooses what is done with the cluster's list of revoked certificates.
func (d work) revoked() tea.Cmd {
	entries := []dialog.Entry{
		{Name: "show them", Message: d.listRevoked()},
		{Name: "lift a revocation", Message: d.lift()},
		{Name: "prove that revocation works here", Message: d.tryRevocation()},
		{Name: "choose who is never refused", Message: d.setRevocation()},
	}
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewChoice(d.Keys, "Revoked certificates", entries)})
}

func (d work) listRevoked() tea.Msg {
	return screen.OperationMsg{Operation: screen.Operation{Title: "Revoked certificates",
		Command: "kubehsm revocation list",
		Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
			l, err := d.Stopping.List(ctx, "")
			if err != nil {
				return screen.Report{}, err
			}
			filed, err := d.Stopping.Filed(ctx, "")
			if err != nil {
				return screen.Report{}, err
			}
			return screen.Report{Title: "Certificates that are refused when they write",
				Sections: slices.Concat(present.Revocations(l), present.FiledRevocations(filed), screen.Wrong(l.Err()))}, nil
		}}}
}

// lift has a revoked certificate write again.
func (d work) lift() tea.Msg {
	fields := []*widget.Field{{ID: "hash", Label: "Certificate", Input: widget.NewInput("", "its SHA-256"),
		Note: "The first digits are enough."}}
	return dialog.OpenMsg{Dialog: dialog.NewForm(d.Keys, "Lift a revocation",
		"The certificate writes again. A cluster admin may do that.", fields, func(f *widget.Form) tea.Cmd {
			digits := value(f, "hash")
			if digits == "" {
				f.Field("hash").Problem = "it is needed"
				return nil
			}
			return screen.Operate(screen.Operation{Title: "Lift a revocation",
				Command: "kubehsm revocation lift " + shell.Quote(digits), Writes: true,
				Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
					l, err := d.Stopping.List(ctx, "")
					if err != nil {
						return screen.Report{}, err
					}
					e, err := l.Named(digits)
					if err != nil {
						return screen.Report{}, err
					}
					if err := screen.Sure(ctx, p, hsm.ConfirmPrompt{Question: "Lift the revocation?",
						Detail: present.RevokedEntry(e)}); err != nil {
						return screen.Report{}, err
					}
					done, err := d.Stopping.Lift(ctx, "", []string{e.Certificate})
					return enforced("The revocation is lifted", done, err)
				}})
		})}
}

// enforced reports a change to the list.
func enforced(title string, done *desk.Enforcement, err error) (screen.Report, error) {
	if err != nil {
		return screen.Report{}, err
	}
	return screen.Report{Title: title,
		Sections: []present.Section{{Lines: []present.Line{present.Enforced(*done)}}}}, nil
}

// tryRevocation proves with a certificate of its own that revocation works.
func (d work) tryRevocation() tea.Msg {
	return screen.OperationMsg{Operation: screen.Operation{Title: "Prove that revocation works",
		Command: "kubehsm revocation check", Writes: true,
		Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
			steps, err := d.Trial.Run(ctx, "")
			if err != nil {
				return screen.Report{}, err
			}
			return screen.Report{Title: "What was tried with a certificate made for it",
				Sections: append(present.Trial(steps), screen.Wrong(desk.TrialErr(steps))...)}, nil
		}}}
}

// setRevocation chooses the settings of the policies, from those that they have.
func (d work) setRevocation() tea.Msg {
	return screen.OperationMsg{Operation: screen.Operation{Title: "Never refused",
		Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
			l, err := d.Stopping.List(ctx, "")
			if err != nil {
				return screen.Report{}, err
			}
			return screen.Report{Message: d.settings(l.Settings)}, nil
		}}}
}

// settings is the form for them.
func (d work) settings(now revocation.Settings) tea.Msg {
	fields := []*widget.Field{
		{ID: "group", Label: "Group", Input: widget.NewInput(now.Spared, revocation.RecoveryGroup),
			Note: "Its members are never refused, and neither are nodes."},
		{ID: "broken", Label: "A broken policy", Options: []widget.Option{{Label: "lets writes pass"},
			{Label: "refuses writes", Clause: "of certificates that it cannot look up"}}}}
	if now.FailClosed {
		fields[1].Index = 1
	}
	return dialog.OpenMsg{Dialog: dialog.NewForm(d.Keys, "Never refused", "All policies are written anew.", fields,
		func(f *widget.Form) tea.Cmd {
			s := revocation.Settings{Spared: value(f, "group"), FailClosed: f.Field("broken").Index == 1}
			command := "kubehsm revocation set --recovery-group " + shell.Quote(s.SparedGroup()) +
				fmt.Sprintf(" --fail-closed=%t", s.FailClosed)
			return screen.Operate(screen.Operation{Title: "Never refused", Command: command, Writes: true,
				Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
					done, err := d.Stopping.Configure(ctx, "", s)
					return enforced("The policies are written", done, err)
				}})
		})}
}
