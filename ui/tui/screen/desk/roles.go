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
		{Name: "compare with what the cluster has", Message: d.checkRoles()},
		{Name: "apply what is missing or differs", Message: d.applyRoles(false)},
		{Name: "apply, and publish cluster-info for tickets", Message: d.applyRoles(true)},
		{Name: "show them, to copy", Message: d.showRoles()},
	}
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewChoice(d.Keys, "Roles and policies", entries)})
}

// compared says how the cluster's roles and policies are.
func compared(all []desk.RBACObject) []present.Section {
	return append([]present.Section{present.Roles(all)}, screen.Wrong(desk.RBACUnenforced(all))...)
}

// checkRoles compares the cluster's roles and policies.
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
			lacks, err := d.Roles.Lacks(ctx, "", time.Now())
			if err != nil {
				return screen.Report{}, err
			}
			barred, err := d.Barred(ctx)
			if err != nil {
				return screen.Report{}, err
			}
			obstacles := d.Tickets.Hindered(ctx, "")
			sections := append(compared(all), present.Rights(rights), present.Obstacles(obstacles))
			sections = append(sections, present.Lacks(lacks)...)
			sections = append(append(sections, present.Barred(barred)...), screen.Wrong(barred.Err())...)
			return screen.Report{Title: "Roles and policies in the cluster", Sections: sections}, nil
		}}}
}

// applyRoles writes what is missing or differs, and with publish cluster-info, too.
func (d work) applyRoles(publish bool) tea.Msg {
	command, roles := "kubehsm rbac apply", d.Roles
	if publish {
		command, roles = command+" --publish-cluster-info", roles.Publishing()
	}
	return screen.OperationMsg{Operation: screen.Operation{Title: "Apply roles and policies",
		Command: command, Writes: true,
		Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			now, err := roles.Check(ctx, "", nil)
			if err != nil {
				return screen.Report{}, err
			}
			if err := screen.Sure(ctx, p, hsm.ConfirmPrompt{Question: "Apply these?",
				Detail: strings.Join(widget.PlainSections(compared(now)), "\n")}); err != nil {
				return screen.Report{}, err
			}
			done, err := roles.Apply(ctx, "", nil, false, false)
			sections := compared(done)
			if err == nil && publish {
				sections = append(sections, screen.Wrong(roles.Published(ctx, ""))...)
			}
			return screen.Report{Title: "Roles and policies in the cluster", Sections: sections}, err
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
