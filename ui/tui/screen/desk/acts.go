package desk

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// ttls are the choices of how long something is good for.
func ttls() ([]widget.Option, []time.Duration) {
	d := []time.Duration{4 * time.Hour, 30 * time.Minute, time.Hour, 12 * time.Hour, 24 * time.Hour}
	var o []widget.Option
	for _, x := range d {
		o = append(o, widget.Option{Label: span.Of(x)})
	}
	return o, d
}

func value(f *widget.Form, id string) string { return strings.TrimSpace(f.Field(id).Input.Value()) }

// list splits what was typed at commas.
func list(s string) []string {
	var out []string
	for _, x := range strings.Split(s, ",") {
		if x = strings.TrimSpace(x); x != "" {
			out = append(out, x)
		}
	}
	return out
}

// work is what is done at the desk after a key was pressed.
type work struct {
	Services
	row      row // row under the cursor
	selected bool
}

// newTicket asks what the ticket is for, makes it, and shows it once as a QR code.
func (d work) newTicket() tea.Cmd {
	options, durations := ttls()
	lifetimes, lives := []time.Duration{0, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 90 * 24 * time.Hour,
		365 * 24 * time.Hour}, []widget.Option(nil)
	for _, d := range lifetimes {
		lives = append(lives, widget.Option{Label: present.Lifetime(d)})
	}
	fields := []*widget.Field{
		{ID: "user", Label: "User", Input: widget.NewInput("", "who it is for"),
			Note: "The name that the cluster will know them by."},
		{ID: "groups", Label: "Groups", Input: widget.NewInput("", "none"), Note: "Separated by commas."},
		{ID: "ttl", Label: "Valid for", Options: options},
		{ID: "policy", Label: "Key", Input: widget.NewInput("", "anything"),
			Note: "Conditions for the key, any of: " + strings.Join(ticket.PolicyNames(), ", ") + "."},
		{ID: "serial", Label: "Token", Input: widget.NewInput("", "any"),
			Note: "The serial number of the only token that is accepted."},
		{ID: "name", Label: "Context", Input: widget.NewInput("", "their choice"),
			Note: "The name proposed for their context."},
		{ID: "spare", Label: "Tickets", Options: []widget.Option{{Label: "one"},
			{Label: "two", Clause: "the second for their spare token"}}},
		{ID: "lifetime", Label: "Lifetime", Options: lives,
			Note: "How long their certificate is valid. 3 days or more survive a weekend."},
	}
	return d.form(
		"A ticket for one person",
		"One line with everything that `kubehsm join` needs. It grants nothing by itself: you approve the request.",
		fields,
		func(f *widget.Form) tea.Cmd {
			o := desk.TicketOptions{Terms: ticket.Terms{User: value(f, "user"), Groups: list(value(f, "groups")),
				Serial: value(f, "serial"), Lifetime: lifetimes[f.Field("lifetime").Index]},
				TTL: durations[f.Field("ttl").Index], Name: value(f, "name")}
			if o.User == "" {
				f.Field("user").Problem = "a user name is needed"
			}
			var err error
			if o.Policy, err = ticket.ParsePolicy(value(f, "policy")); err != nil {
				f.Field("policy").Problem = ui.Message(err)
			}
			spare := f.Field("spare").Index == 1
			second, err := o.ForSpare()
			if spare && err != nil {
				f.Field("serial").Problem = ui.Message(err)
			}
			if f.FirstProblem() {
				return nil
			}
			command := ticketCommand(o)
			if spare {
				command += " --spare"
			}
			return screen.Operate(screen.Operation{Title: "Make a ticket", Command: command + " -o qr", Writes: true,
				Run: func(ctx context.Context, ask hsm.Prompter) (screen.Report, error) {
					against, err := d.Tickets.Obstacles(ctx, "", o.Signer)
					if err == nil && len(against) > 0 {
						err = screen.Sure(ctx, ask, present.AskTicket(against))
					}
					if err != nil {
						return screen.Report{}, err
					}
					shown, err := d.makeTicket(ctx, "Ticket for "+o.User, o)
					if err != nil {
						return screen.Report{}, err
					}
					if spare {
						shown.Next, err = d.makeTicket(ctx, "Spare ticket for "+o.User, second)
					}
					// one that is made is good, whatever became of the spare
					return screen.Report{Message: dialog.OpenMsg{Dialog: shown}}, err
				}})
		},
	)
}

func (d work) makeTicket(ctx context.Context, title string, o desk.TicketOptions) (*dialog.Ticket, error) {
	t, err := d.Tickets.Make(ctx, "", o)
	if err != nil {
		return nil, err
	}
	shown := dialog.NewTicket(d.Keys, title, t.Text, t.Expires)
	shown.Says = present.Ticket(t)
	return shown, nil
}

func ticketCommand(o desk.TicketOptions) string {
	line := "kubehsm helpdesk ticket --for " + shell.Quote(o.User)
	for _, g := range o.Groups {
		line += " --group " + shell.Quote(g)
	}
	line += " --ttl " + o.TTL.String()
	if o.Lifetime != 0 {
		line += " --lifetime " + o.Lifetime.String()
	}
	if o.Policy != 0 {
		line += " --policy " + shell.Quote(o.Policy.String())
	}
	if o.Serial != "" {
		line += " --serial " + shell.Quote(o.Serial)
	}
	if o.Name != "" {
		line += " --name " + shell.Quote(o.Name)
	}
	return line
}

func (d work) form(title, intro string, fields []*widget.Field, submit func(*widget.Form) tea.Cmd) tea.Cmd {
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewForm(d.Keys, title, intro, fields, submit)})
}

func (d work) newToken() tea.Cmd {
	options, durations := ttls()
	fields := []*widget.Field{
		{ID: "description", Label: "What for", Input: widget.NewInput("", "nothing said"),
			Note: "For people; it is kept in the cluster."},
		{ID: "ttl", Label: "Valid for", Options: options},
	}
	return d.form("A bootstrap token",
		"Whoever has it can file requests until it expires. A ticket is safer: it says for whom.", fields,
		func(f *widget.Form) tea.Cmd {
			description, ttl := value(f, "description"), durations[f.Field("ttl").Index]
			command := "kubehsm bootstrap-token create --print-join-command --ttl " + ttl.String()
			if description != "" {
				command += " --description " + shell.Quote(description)
			}
			return screen.Operate(screen.Operation{Title: "Make a bootstrap token", Command: command, Writes: true,
				Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
					v, err := d.makeToken(ctx, description, ttl)
					if err != nil {
						return screen.Report{}, err
					}
					return screen.Report{Title: "The token, which is shown once",
						Lines: append([]string{v.Token, "", "They type:", v.Join, ""}, v.Warnings...)}, nil
				}})
		})
}

func (d work) makeToken(ctx context.Context, description string, ttl time.Duration) (desk.BootstrapToken, error) {
	secret, err := bootstraptoken.Generate()
	if err != nil {
		return desk.BootstrapToken{}, err
	}
	defer secret.Wipe()
	r := bootstraptoken.Record{Token: secret, Description: description, Usages: bootstraptoken.KnownUsages()}
	if r.Expires, err = bootstraptoken.ExpiresIn(time.Now(), ttl); err != nil {
		return desk.BootstrapToken{}, err
	}
	return d.Bootstrap.Create(ctx, "", r, true)
}

func (d work) delete(r row) tea.Cmd {
	return screen.Operate(screen.Operation{Title: "Delete the " + r.words().Kind,
		Command: "kubehsm bootstrap-token delete " + r.ID, Writes: true,
		Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			err := screen.Sure(ctx, p, hsm.ConfirmPrompt{Question: "Delete " + r.words().Kind + " " + r.ID + "?",
				Detail: "It is for: " + r.words().For + ". Nobody can use it any more."})
			if err != nil {
				return screen.Report{}, err
			}
			return screen.Report{Said: "it is deleted"}, d.Bootstrap.Delete(ctx, "", r.ID)
		}})
}
