package roster

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// remove asks what became of a token, and ends its renewals.
func (m *Model) remove(e desk.RosterEntry) tea.Cmd {
	as := func(lost bool) tea.Msg {
		command := "kubehsm roster remove " + shell.Quote(e.Serial)
		if lost {
			command += " --lost"
		}
		return screen.OperationMsg{Operation: screen.Operation{Title: "End the renewals", Command: command, Writes: true,
			Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
				all := []desk.RosterEntry{e}
				row := present.RosterRowOf(e, time.Now())
				if err := screen.Sure(ctx, p, hsm.ConfirmPrompt{Question: present.RosterQuestion(all, lost),
					Detail: "Token " + row.Serial + " of " + row.Owner + ". " + present.RosterRemoved}); err != nil {
					return screen.Report{}, err
				}
				_, err := m.Roster.Remove(ctx, "", all, lost)
				return screen.Report{Said: "it gets no further certificate"}, err
			}}}
	}
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewChoice(m.Keys, "What became of it?", []dialog.Entry{
		{Name: "it is lost", Message: as(true)}, {Name: "it was returned, or its owner has left", Message: as(false)}})})
}

// issuing is how long the certificate of a request with a ticket is awaited.
const issuing = 30 * time.Second

// approve approves all requests that prove what they claim.
func (m *Model) approve() tea.Cmd {
	return screen.Operate(screen.Operation{Title: "Approve the proven", Command: "kubehsm csr approve --proven",
		Writes: true, Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			seen, left, err := m.Approvals.Proven(ctx, "", nil)
			if err != nil {
				return screen.Report{}, err
			}
			var done []desk.ProvenApproval
			if len(seen) > 0 {
				shown := widget.PlainSections([]present.Section{present.Proven(seen, time.Now())})
				if err := screen.Sure(ctx, p, hsm.ConfirmPrompt{Question: present.ProvenQuestion(len(seen)),
					Detail: strings.Join(shown, "\n")}); err != nil {
					return screen.Report{}, err
				}
				done, err = m.Approvals.ApproveProven(ctx, "", seen, request.DecideOptions{}, issuing)
				if err != nil && len(done) == 0 {
					return screen.Report{}, err
				}
			}
			return screen.Report{Title: "Requests that prove what they claim",
				Sections: append([]present.Section{present.ProvenApprovals(done, left)},
					screen.Wrong(err)...)}, nil
		}})
}

// line makes the command with which everybody on the roster joins.
func (m *Model) line() tea.Cmd {
	group := &widget.Field{ID: "group", Label: "Group", Input: widget.NewInput("", "the roster's"),
		Note: "Everybody asks for this group only, not for all that the roster gives them."}
	name := &widget.Field{ID: "name", Label: "Context", Input: widget.NewInput("", "their choice"),
		Note: "The name proposed for their context."}
	token := &widget.Field{ID: "token", Label: "Token", Options: []widget.Option{{Label: "bootstrap token"},
		{Label: "file-only", Clause: "a service account's"}},
		Note: "File-only is for clusters that accept no bootstrap tokens, as k3s, Talos and OpenShift may not."}
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewForm(m.Keys, "A join line for everybody",
		"For a day, the line can only file requests and look up the owner of a token.",
		[]*widget.Field{group, name, token},
		func(*widget.Form) tea.Cmd {
			o := desk.LineOptions{TTL: bootstraptoken.DefaultTTL, Lifetime: desk.DefaultLineLifetime,
				Name: strings.TrimSpace(name.Input.Value())}
			command := "kubehsm roster line"
			if g := strings.TrimSpace(group.Input.Value()); g != "" {
				o.Groups, command = []string{g}, command+" --group "+shell.Quote(g)
			}
			if o.Name != "" {
				command += " --name " + shell.Quote(o.Name)
			}
			if o.FileOnly = token.Index == 1; o.FileOnly {
				command += " --file-only"
			}
			return screen.Operate(screen.Operation{Title: "Make a join line", Command: command, Writes: true,
				Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
					v, err := m.Bootstrap.JoinLine(ctx, "", o)
					if err != nil {
						return screen.Report{}, err
					}
					return screen.Report{Message: screen.TextMsg{Title: "Everybody on the roster types", Lines: []string{v.Join},
						What: "join line", Copy: v.Join}}, nil
				}})
		})})
}

// imports reads a list from a file and writes it on the roster.
func (m *Model) imports() tea.Cmd {
	file := &widget.Field{ID: "file", Label: "File", Input: widget.NewInput("", "~/people.csv"),
		Note: "Comma-separated: serial, owner, groups, horizon, state. The first line names the columns."}
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewForm(m.Keys, "A list of tokens",
		"Tokens and columns that the list does not name stay as they are.", []*widget.Field{file},
		func(*widget.Form) tea.Cmd {
			path := screen.Path(file.Input.Value())
			if path == "" {
				file.Problem = "name a file"
				return nil
			}
			return screen.Operate(screen.Operation{Title: "Import a list", Command: "kubehsm roster import " + shell.Quote(path),
				Writes: true, Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
					b, err := screen.ReadFile(path)
					if err != nil {
						return screen.Report{}, err
					}
					all, err := desk.ReadRoster(b, "")
					if err != nil {
						return screen.Report{}, err
					}
					shown := widget.PlainSections([]present.Section{present.Roster(all, time.Now())})
					if err := screen.Sure(ctx, p, hsm.ConfirmPrompt{Question: present.ImportQuestion(len(all)),
						Detail: strings.Join(shown, "\n")}); err != nil {
						return screen.Report{}, err
					}
					n, err := m.Roster.Import(ctx, "", all, false)
					if err != nil {
						return screen.Report{}, fmt.Errorf("%d of %d tokens were accepted: %w", n, len(all), err)
					}
					return screen.Report{Said: present.Count(n, "token") + " on the roster"}, nil
				}})
		})})
}
