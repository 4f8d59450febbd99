package enroll

import (
	"context"

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
	"github.com/kubehsm/kubehsm/ui/verb"
)

// What the cluster page's items stand for that no kubeconfig names, besides the
// index of a context.
const (
	itemTicket = -3
	itemToken  = -4
	itemFile   = -5
)

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

type joinMsg struct {
	opts enrolling.Options
	next stage
}

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

// askToken asks for the address, as kubeadm does, and for the token.
func (p *clusterPage) askToken() tea.Cmd {
	var address string
	var hashes []string
	form := []verb.Option{
		{Flag: "address", Into: &address, Label: "Address", Empty: "10.0.0.1:6443"},
		{Flag: "hash", Into: &hashes, Label: "CA hash", Empty: "sha256:…", Note: "The hash of the cluster's CA; several " +
			"with commas. Without it, anyone who knows the token can pretend to be the cluster."}}
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewOptions(p.m.Keys, "Join with a bootstrap token", "", form,
		func(f *widget.Form) tea.Cmd {
			pins, err := discovery.ParsePins(hashes)
			if err != nil {
				f.Field("hash").Problem = ui.Message(err)
				return nil
			}
			j := &enrolling.Join{Endpoint: address, Pins: pins}
			check := discovery.Options{Endpoint: j.Endpoint, Pins: j.Pins}
			if check.Token, err = bootstraptoken.Generate(); err == nil { // a token made up, before the real one is asked for
				err = check.Validate()
			}
			if err != nil {
				f.Field("address").Problem = ui.Message(err)
				return nil
			}
			return p.askBootstrapToken(j)
		})})
}

func (p *clusterPage) askFile() tea.Cmd {
	path := ""
	form := []verb.Option{{Flag: "file", Into: &path, Label: "File", Empty: "~/cluster.conf",
		Note: "A file, or an https URL."}}
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewOptions(p.m.Keys, "Join by a discovery file", "", form,
		func(f *widget.Form) tea.Cmd {
			path := screen.Path(path)
			if path == "" || path == discovery.Stdin {
				f.Field("file").Problem = "name a file"
				return nil
			}
			return p.askBootstrapToken(&enrolling.Join{File: path})
		})})
}

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
