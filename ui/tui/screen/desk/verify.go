package desk

import (
	"context"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

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
