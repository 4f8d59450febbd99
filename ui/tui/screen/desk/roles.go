package desk

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// roles offers what there is to do with the roles and policies that tickets, help
// desk and break-glass need.
func (d work) roles() tea.Cmd {
	entries := []dialog.Entry{
		{Name: "compare the cluster's with those that are needed", Message: d.checkRoles()},
		{Name: "apply those that are missing or differ", Message: d.applyRoles()},
		{Name: "show them, to copy", Message: d.showRoles()},
	}
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewChoice(d.Keys, "Roles and policies", entries)})
}

// compared says how the cluster's roles and policies are.
func compared(all []desk.RBACObject) []present.Section {
	return append([]present.Section{present.Roles(all)}, screen.Wrong(desk.RBACUnenforced(all))...)
}

func (d work) checkRoles() tea.Msg {
	return screen.OperationMsg{Operation: screen.Operation{Title: "Check roles and policies",
		Command: "kubehsm rbac check",
		Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
			all, err := d.Roles.Check(ctx, "", nil)
			if err != nil {
				return screen.Report{}, err
			}
			rights, err := d.Roles.Rights(ctx, "")
			if err != nil {
				return screen.Report{}, err
			}
			evaders, err := d.Roles.Evaders(ctx, "")
			if err != nil {
				return screen.Report{}, err
			}
			lacks, err := d.Roles.Lacks(ctx, "", time.Now())
			if err != nil {
				return screen.Report{}, err
			}
			sections := append(compared(all), present.Rights(rights), present.Evaders(evaders),
				present.Obstacles(d.Tickets.Hindered(ctx, "")))
			return screen.Report{Title: "Roles and policies in the cluster",
				Sections: append(sections, present.Lacks(lacks)...)}, nil
		}}}
}

func (d work) applyRoles() tea.Msg {
	return screen.OperationMsg{Operation: screen.Operation{Title: "Apply roles and policies",
		Command: "kubehsm rbac apply", Writes: true,
		Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			now, err := d.Roles.Check(ctx, "", nil)
			if err != nil {
				return screen.Report{}, err
			}
			if err := screen.Sure(ctx, p, hsm.ConfirmPrompt{Question: "Apply these?",
				Detail: strings.Join(widget.PlainSections(compared(now)), "\n")}); err != nil {
				return screen.Report{}, err
			}
			done, err := d.Roles.Apply(ctx, "", nil, false, false)
			return screen.Report{Title: "Roles and policies in the cluster", Sections: compared(done)}, err
		}}}
}

func (d work) showRoles() tea.Msg {
	manifest, err := desk.RBACManifest()
	if err != nil {
		return screen.FailureMsg{Title: "Roles and policies", Err: err}
	}
	return screen.TextMsg{Title: "Roles and policies: kubehsm rbac print",
		Lines: strings.Split(strings.TrimSpace(manifest), "\n"), What: "manifest", Copy: manifest}
}

// verify verifies an attestation that somebody sent, without the token.
func (d work) verify() tea.Cmd {
	fields := []*widget.Field{
		{ID: "file", Label: "File", Input: widget.NewInput("", "~/attestation.pem"),
			Note: "The statement and the device's certificate in PEM, or a certificate request that carries them."},
		{ID: "for", Label: "Is for", Input: widget.NewInput("", "the request's own key"),
			Note: "A PEM file with the certificate, request or public key that it must be for."}}
	return d.form("Verify what a token states", "Against Yubico's published roots.", fields, func(f *widget.Form) tea.Cmd {
		path, of := screen.Path(value(f, "file")), screen.Path(value(f, "for"))
		if path == "" {
			f.Field("file").Problem = "name a file"
			return nil
		}
		command := "kubehsm attestation verify " + shell.Quote(path)
		if of != "" {
			command += " --for " + shell.Quote(of)
		}
		return screen.Operate(screen.Operation{Title: "Verify an attestation", Command: command,
			Run: func(context.Context, hsm.Prompter) (screen.Report, error) {
				statement, err := screen.ReadFile(path)
				if err != nil {
					return screen.Report{}, err
				}
				var key any
				if of != "" {
					b, err := screen.ReadFile(of)
					if err == nil {
						key, err = token.PublicKey(b)
					}
					if err != nil {
						return screen.Report{}, err
					}
				}
				return screen.Report{Title: "What " + text.Clean(path) + " states",
					Sections: present.Attested(token.VerifyAttestation(statement, key, nil))}, nil
			}})
	})
}
