package token

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// request files a request for a certificate for the key, and no more: it is
// followed on the screen of requests.
func (c contents) request(s hsm.Slot) tea.Cmd {
	lifetimes := []time.Duration{0, 8 * time.Hour, 24 * time.Hour, 90 * 24 * time.Hour}
	life := widget.Lifetimes(lifetimes)
	fields := []*widget.Field{
		{ID: "user", Label: "User", Input: widget.NewInput("", "who the certificate is for")},
		{ID: "groups", Label: "Groups", Input: widget.NewInput("", "none"), Note: "Separated by commas."},
		life,
		{ID: "signer", Label: "Signer", Input: widget.NewInput(csr.ClientSigner, ""),
			Note: "The one of the API server makes what kubectl signs in with."},
		{ID: "reason", Label: "Reason", Input: widget.NewInput("", "none"), Note: "Shown to whoever approves the request."},
	}
	intro := "It is signed by the key and filed in the current context's cluster; no context is made. Enroll does " +
		"all of it."
	return openForm(c.Keys, "A request for the key in "+present.Slot(s), intro, fields, func(f *widget.Form) tea.Cmd {
		value := func(id string) string { return strings.TrimSpace(f.Field(id).Input.Value()) }
		o := enrolling.Options{Key: s.URI, User: value("user"), SignerName: value("signer"),
			Expiration: lifetimes[life.Index], Reason: value("reason")}
		command := "csr create --user " + shell.Quote(o.User)
		for _, g := range strings.Split(value("groups"), ",") {
			if g = strings.TrimSpace(g); g != "" {
				o.Groups = append(o.Groups, g)
				command += " --group " + shell.Quote(g)
			}
		}
		for id, flag := range map[string]string{"user": o.User, "signer": o.SignerName} {
			if flag == "" {
				f.Field(id).Problem = "it is needed"
			}
		}
		if f.FirstProblem() {
			return nil
		}
		if o.SignerName != csr.ClientSigner {
			command += " --signer-name " + shell.Quote(o.SignerName)
		}
		if o.Expiration > 0 {
			command += " --expiration " + o.Expiration.String()
		}
		if o.Reason != "" {
			command += " --reason " + shell.Quote(o.Reason)
		}
		return screen.Operate(screen.Operation{Title: "File a request", Command: by(command, s.URI), Writes: true,
			Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
				v, err := c.Requests.Create(ctx, "", o, p)
				return screen.Report{Said: v.Name + " is filed: it must be approved now"}, err
			}})
	})
}
