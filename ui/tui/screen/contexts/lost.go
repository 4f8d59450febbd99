package contexts

import (
	"context"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/lost"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// lost asks which token the owner has lost, and reports it in the cluster of a context, with another token.
func (d deeds) lost(c contexts.View) tea.Cmd {
	about := "Insert another token of yours: the report is made with it."
	if known, err := d.Lost.Known(); err == nil && len(known) > 0 { // the number can be typed without
		about += " This computer knows " + clean(strings.Join(known, ", ")) + "."
	}
	serial := &widget.Field{ID: "token", Label: "Serial number", Input: widget.NewInput("", "that of the lost token")}
	reason := &widget.Field{ID: "reason", Label: "Reason", Input: widget.NewInput("", "none"),
		Note: "Whoever has the token reads this when a write is refused."}
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewForm(d.Keys, "Which token have you lost?", about,
		[]*widget.Field{serial, reason}, func(*widget.Form) tea.Cmd {
			note := strings.TrimSpace(reason.Input.Value())
			if len([]rune(note)) > lost.MaxNote {
				reason.Problem = "it is too long"
				return nil
			}
			return d.report(c.Name, strings.TrimSpace(serial.Input.Value()), note)
		})})
}

// report reports a token after a yes.
func (d deeds) report(at, serial, note string) tea.Cmd {
	command := "kubehsm roster lost " + shell.Quote(serial) + " --context " + shell.Quote(at)
	if note != "" {
		command += " --reason " + shell.Quote(note)
	}
	return screen.Operate(screen.Operation{Title: "Report a lost token", Command: command, Writes: true,
		Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			token, err := d.Lost.LookUp(ctx, at, serial)
			if err != nil {
				return screen.Report{}, err
			}
			detail := strings.Join(widget.PlainSections(present.LostToken(token)), "\n")
			if err := screen.Sure(ctx, p, hsm.ConfirmPrompt{Question: present.LostQuestion(token), Detail: detail}); err != nil {
				return screen.Report{}, err
			}
			if err := d.Lost.Report(ctx, at, &token, note, lost.Patience); err != nil {
				return screen.Report{}, err
			}
			return screen.Report{Title: "The token is lost", Lines: widget.PlainSections(present.LostDone(token))}, nil
		}})
}
