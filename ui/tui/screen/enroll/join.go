package enroll

import (
	"context"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// What the cluster page's items stand for that no kubeconfig names, besides the
// index of a context.
const (
	itemTicket = -3
	itemToken  = -4
	itemFile   = -5
)

// joins are the ways to join a cluster that no kubeconfig names, the most common
// one where end finds it.
func joins() []item {
	proven := []string{"The cluster is found and proven first. No credential is sent before."}
	return []item{
		{id: "token", index: itemToken, name: "Join with a bootstrap token", about: "and the address of the cluster",
			detail: proven},
		{id: "file", index: itemFile, name: "Join by a discovery file", about: "that says where the cluster is",
			detail: proven},
		{id: "ticket", index: itemTicket, name: "Join with a ticket",
			about: "from your help desk; it says which cluster, and who you are there", detail: proven},
	}
}

// joinMsg brings what a ticket says, or where a cluster is to be found.
type joinMsg struct {
	opts enrolling.Options
	next stage
}

// askTicket asks for the ticket, which is a secret, and fills in what it says.
func (p *clusterPage) askTicket() tea.Cmd {
	o := p.m.opts
	return screen.Operate(screen.Operation{Title: "Read the ticket", Writes: true,
		Run: func(ctx context.Context, ask hsm.Prompter) (screen.Report, error) {
			secret, err := ask.PIN(ctx, hsm.PINPrompt{Kind: "ticket", Retries: -1,
				Purpose: hsm.Purpose{Action: "join a cluster"}})
			if err != nil {
				return screen.Report{}, err
			}
			defer secret.Zero()
			t, err := ticket.Parse(secret.Bytes())
			if err != nil {
				return screen.Report{}, err
			}
			o.Context, o.User, o.Groups = "", "", nil
			if err := o.UseTicket(t); err != nil {
				t.Wipe()
				return screen.Report{}, err
			}
			return screen.Report{Message: joinMsg{o, stageReview}}, nil
		}})
}

// askToken asks where the cluster is, as kubeadm does, and for the token.
func (p *clusterPage) askToken() tea.Cmd {
	address := &widget.Field{ID: "address", Label: "Address", Input: widget.NewInput("", "10.0.0.1:6443")}
	hash := &widget.Field{ID: "hash", Label: "CA hash", Input: widget.NewInput("", "sha256:…"),
		Note: "Of the cluster's authority; several with commas. Without it whoever knows the token could pretend to be " +
			"the cluster."}
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewForm(p.m.Keys, "Join with a bootstrap token", "",
		[]*widget.Field{address, hash}, func(*widget.Form) tea.Cmd {
			j := &enrolling.Join{Endpoint: strings.TrimSpace(address.Input.Value())}
			var err error
			if j.Pins, err = discovery.ParsePins(groups(hash.Input.Value())); err != nil {
				hash.Problem = ui.Message(err)
				return nil
			}
			check := discovery.Options{Endpoint: j.Endpoint, Pins: j.Pins}
			if check.Token, err = bootstraptoken.Generate(); err == nil { // a token made up, before the real one is asked for
				err = check.Validate()
			}
			if err != nil {
				address.Problem = ui.Message(err)
				return nil
			}
			return p.askBootstrapToken(j)
		})})
}

// askFile asks for the file that says where the cluster is, and for the token.
func (p *clusterPage) askFile() tea.Cmd {
	file := &widget.Field{ID: "file", Label: "File", Input: widget.NewInput("", "~/cluster.conf"),
		Note: "A file, or an https URL."}
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewForm(p.m.Keys, "Join by a discovery file", "",
		[]*widget.Field{file}, func(*widget.Form) tea.Cmd {
			path := screen.Path(file.Input.Value())
			if path == "" || path == discovery.Stdin {
				file.Problem = "name a file"
				return nil
			}
			return p.askBootstrapToken(&enrolling.Join{File: path})
		})})
}

// askBootstrapToken asks for the token, which is a secret.
func (p *clusterPage) askBootstrapToken(j *enrolling.Join) tea.Cmd {
	o := p.m.opts
	return screen.Operate(screen.Operation{Title: "Read the token", Writes: true,
		Run: func(ctx context.Context, ask hsm.Prompter) (screen.Report, error) {
			secret, err := ask.PIN(ctx, hsm.PINPrompt{Kind: "bootstrap token", Retries: -1,
				Purpose: hsm.Purpose{Action: "join a cluster"}})
			if err != nil {
				return screen.Report{}, err
			}
			defer secret.Zero()
			if j.File != "" {
				err = j.SetToken(secret.Bytes())
			} else {
				j.Token, err = bootstraptoken.Parse(secret.Bytes())
				j.DiscoveryToken = j.Token
			}
			if err != nil {
				return screen.Report{}, err
			}
			o.Context, o.Join = "", j
			return screen.Report{Message: joinMsg{o, stageSubject}}, nil
		}})
}
