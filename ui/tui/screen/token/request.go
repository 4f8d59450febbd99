package token

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
	"github.com/kubehsm/kubehsm/ui/verb"
)

// request files a request for the key's certificate and nothing else; the requests screen follows
// it.
func (c contents) request(s hsm.Slot) tea.Cmd {
	o := enrolling.Options{Key: s.URI, SignerName: csr.ClientSigner}
	form := enrolling.Form(&o, "user", "group", "expiration", "signer-name", "reason")
	const day = 24 * time.Hour
	form[2].Choices = present.Lifetimes(0, 8*time.Hour, day, 90*day)
	intro := "It is signed by the key and filed in the current context's cluster; no context is made. Enroll does " +
		"all of it."
	return openForm(c.Keys, "A request for the key in "+present.Slot(s), intro, form, func(*widget.Form) tea.Cmd {
		line := verb.Line("csr create", append(enrolling.Form(&o, "key"), form...)...)
		return screen.Operate(screen.Operation{Title: "File a request", Command: line, Writes: true,
			Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
				v, err := c.Requests.Create(ctx, "", o, p)
				return screen.Report{Said: v.Name + " is filed: it must be approved now"}, err
			}})
	})
}
