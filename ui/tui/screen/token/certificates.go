package token

import (
	"context"
	"encoding/pem"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

func certificatePEM(s hsm.Slot) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate.Raw})
}

func (c contents) show(s hsm.Slot) tea.Cmd {
	lines := widget.PlainFacts(present.CertificateFacts(s.Certificate, time.Now()))
	if s.Key != nil && !s.CertificateMatches() {
		lines = append(lines, "It is for another key than the one in this slot.")
	}
	lines = append(lines, "")
	lines = append(lines, strings.Split(strings.TrimSpace(string(certificatePEM(s))), "\n")...)
	return screen.Send(screen.TextMsg{Title: "Certificate in " + present.Slot(s), Lines: lines, What: "PEM",
		Copy: string(certificatePEM(s))})
}

func (c contents) attest(s hsm.Slot) tea.Cmd {
	return screen.Operate(screen.Operation{Title: "Attest the key", Command: by("key attest", s.URI),
		Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
			a, err := c.TokenKeys.Attest(ctx, s.URI, nil)
			if err != nil {
				return screen.Report{}, err
			}
			return screen.Report{Title: "What the token says of the key in slot " + s.ID, Sections: present.Attested(a)}, nil
		}})
}
