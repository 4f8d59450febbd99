package desk

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// breakGlass asks for a certificate that may do everything, and waits for the
// second person.
func (d work) breakGlass() tea.Cmd {
	reason := &widget.Field{ID: "reason", Label: "Reason", Input: widget.NewInput("", "INC-4711: the API is down"),
		Note: "For the second person; it is kept in every record."}
	intro := "It asks for a certificate that may do everything, for " + span.Of(desk.BreakGlassLifetime) +
		", and waits until a second person approves it. The current context stays."
	return d.form("Request emergency access?", intro, []*widget.Field{reason}, func(f *widget.Form) tea.Cmd {
		why := value(f, "reason")
		if why == "" {
			reason.Problem = "a reason is needed"
			return nil
		}
		return screen.Operate(screen.Operation{Title: "Break-glass",
			Command: "kubehsm breakglass request --reason " + shell.Quote(why), Writes: true,
			Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
				o, err := d.BreakGlass.Request(ctx, desk.BreakGlassOptions{Reason: why})
				if err != nil {
					return screen.Report{}, err
				}
				r, err := d.enroll(ctx, p, o)
				r.Said, r.Title = "emergency access: "+r.Said, r.Title+" may do everything"
				return r, err
			}})
	})
}

func (d work) enroll(ctx context.Context, p hsm.Prompter, o enrolling.Options) (screen.Report, error) {
	r, err := d.Enroller.Enroll(ctx, o, p, screen.Steps(ctx))
	if err != nil {
		return screen.Report{}, err
	}
	return screen.Report{Said: "context " + r.Context, Title: "Context " + r.Context,
		Sections: present.Result(r, time.Now())}, nil
}
