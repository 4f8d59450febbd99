package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

func (a *app) tokenRelease() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use:   "release",
		Short: "Make GnuPG release the card that it holds",
		Long: `Ends GnuPG's smart card daemon (gpgconf --kill scdaemon), which keeps a card for itself
after gpg or ssh used it. gpg starts it again when needed. kubehsm never ends it
without being told.`,
		Example: "kubehsm token release",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		if err := token.ReleaseScdaemon(c.Context()); err != nil {
			return err
		}
		doc := struct {
			Released string `json:"released"`
		}{hsm.Scdaemon}
		return a.emit(o, doc, func(w *words) {
			w.line("GnuPG's scdaemon has ended. gpg starts it again when needed.")
		})
	})
	o = output(c)
	return c
}

// offerRelease asks, once in a run, whether scdaemon shall let go of the card
// that is needed. Where nobody can be asked the answer is no, and the error says
// what to do.
func (a *app) offerRelease(ctx context.Context, held *hsm.BusyError) bool {
	if !a.offers || !held.Releasable() {
		return false
	}
	a.offers = false
	a.asking.Store(true)
	defer a.asking.Store(false)
	yes, err := a.prompter().Confirm(ctx, hsm.ConfirmPrompt{
		Detail:   "The card is held by " + strings.Join(held.Holders, ", ") + ".",
		Question: "End GnuPG's scdaemon, so that it releases the card?",
	})
	if err != nil || !yes {
		return false
	}
	if err := token.ReleaseScdaemon(ctx); err != nil {
		ui.Report(a.Stderr, err)
		return false
	}
	return true
}
