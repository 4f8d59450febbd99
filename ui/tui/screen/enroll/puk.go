package enroll

import (
	"context"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
)

// pukMsg says that the card may have got a new PUK.
type pukMsg struct{}

func keyPUK() key.Binding { return keys.Letter("P", "give it a random PUK") }

// joinsCard tells whether a card is about to join, which its help desk may want a
// PUK of.
func (p *reviewPage) joinsCard() bool {
	o := p.m.plan.Options
	return p.m.plan.ready && o.Join != nil && o.Token.Kind().Unblocks == hsm.PUK
}

// newPUK gives the card a random PUK, as join --generate-puk does: sealed to the
// help desk whose ticket asks for it, else shown once.
func (p *reviewPage) newPUK() tea.Cmd {
	o := p.m.opts
	return screen.Operate(screen.Operation{Title: "Give the card a random PUK", Command: "kubehsm join --generate-puk",
		Writes: true,
		Run: func(ctx context.Context, ask hsm.Prompter) (screen.Report, error) {
			r, err := p.m.Joins.NewPUK(ctx, o, nil, ask)
			if r == nil {
				return screen.Report{}, err
			}
			report := screen.Report{Said: "the card has a new PUK", Message: pukMsg{}}
			switch {
			case r.Kept:
				report.Said = "the PUK is no longer the default, or the card does not tell; it was not changed"
			case r.Sealed != "":
				report.Title = "Send this to the help desk"
				report.Lines = []string{"You do not need to know the new PUK. It is sealed for them:", "", r.Sealed, "",
					"They open it with:", "kubehsm helpdesk open --ticket-id " + shell.Quote(o.Join.Ticket) + " --serial " +
						shell.Quote(r.Serial)}
			case r.Secret != nil:
				defer r.Secret.Zero()
				screen.ShowNew(ctx, p.m.Runner.Finishing, ask, "PUK", err, string(r.Secret.Bytes()))
			}
			return report, err
		}})
}
