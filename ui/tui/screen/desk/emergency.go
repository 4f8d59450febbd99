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

// enroll enrolls and keeps a record of it.
func (d work) enroll(ctx context.Context, p hsm.Prompter, o enrolling.Options) (screen.Report, error) {
	r, err := d.Enroller.Enroll(ctx, o, p, screen.Steps(ctx))
	if err != nil {
		return screen.Report{}, err
	}
	return screen.Report{Said: "context " + r.Context, Title: "Context " + r.Context,
		Sections: present.Result(r, time.Now())}, d.BreakGlass.Record(ctx, r, o.Reason)
}

// seal enrolls a token in advance, to be kept in a safe.
func (d work) seal() tea.Cmd {
	token := &widget.Field{ID: "token", Label: "Token"}
	var tokens []hsm.TokenInfo
	for _, v := range d.Store.Tokens.Value.Views {
		tokens = append(tokens, v.Info)
		token.Options = append(token.Options, widget.Option{Label: present.Token(v.Info), Clause: present.Kind(v.Info),
			Reason: present.Unusable(v.Info)})
	}
	if len(tokens) == 0 {
		return screen.Send(screen.ToastMsg{Text: "seal a token: insert the one that goes into the safe", Warn: true})
	}
	lifetimes := []time.Duration{0, 90 * 24 * time.Hour, 182 * 24 * time.Hour, 365 * 24 * time.Hour}
	life := widget.Lifetimes(lifetimes)
	fields := []*widget.Field{token,
		{ID: "user", Label: "User", Input: widget.NewInput("", "sealed-1"),
			Note: "A name of its own: the audit log then shows when it is used."},
		{ID: "reason", Label: "Reason", Input: widget.NewInput("", "safe in room 12, two keys"),
			Note: "Where it is kept and who may open the safe."}, life}
	intro := "A new key on it may do everything. A second person approves it. Put the token and its PIN into " +
		"different safes."
	return d.form("A token for the safe", intro, fields, func(f *widget.Form) tea.Cmd {
		for _, id := range []string{"user", "reason"} {
			if value(f, id) == "" {
				f.Field(id).Problem = "it is needed"
			}
		}
		info := tokens[token.Index]
		if token.Problem = present.Unusable(info); f.FirstProblem() {
			return nil
		}
		o := enrolling.Options{Token: info.URI(), User: value(f, "user"), Reason: value(f, "reason"),
			Expiration: lifetimes[life.Index]}
		command := "kubehsm breakglass seal --user " + shell.Quote(o.User) + " --token " + shell.Quote(o.Token.String()) +
			" --reason " + shell.Quote(o.Reason)
		if o.Expiration > 0 {
			command += " --lifetime " + o.Expiration.String()
		}
		return screen.Operate(screen.Operation{Title: "Seal a token", Command: command, Writes: true,
			Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
				o, err := d.BreakGlass.Seal(ctx, "", "", o)
				if err != nil {
					return screen.Report{}, err
				}
				return d.enroll(ctx, p, o)
			}})
	})
}
