package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
)

func (a *app) keyMove() *cobra.Command {
	var o *format
	var key, to string
	c := a.command(&cobra.Command{
		Use:   "move",
		Short: "Move a key and its certificate to an empty slot of the same PIV card",
		Long: `Moves a key and its certificate to an empty slot, for example to make room in 9a and
keep the old key in a retired slot. Enrollments with this key are updated. Not every PIV
card can move keys: YubiKeys can from firmware 5.7 on, and "kubehsm token info" shows
whether a card can.`,
		Example: "kubehsm key move --key 'piv:serial=12345678;slot=9a' --to 82",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		u, err := parseKey(key)
		if err != nil {
			return err
		}
		if to == "" {
			return ui.Usagef("--to is missing: name an empty slot")
		}
		target, err := hsm.ParseURI("piv:slot=" + to)
		if err != nil {
			return &ui.UsageError{Err: err}
		}
		keys, err := a.keys()
		if err != nil {
			return err
		}
		slot, followed, err := keys.Move(c.Context(), u, target.Slot, a.prompter())
		if err != nil {
			return err
		}
		d, err := keyDocOf(slot)
		if err != nil {
			return err
		}
		doc := struct {
			keyDoc
			Enrollments []string `json:"enrollments,omitempty"`
		}{d, followed}
		return a.emit(o, doc, func(w *words) {
			w.line("The key is in slot %s now.", slot.ID)
			w.fields("Key", slot.URI.String(), "Enrollments that follow", strings.Join(followed, ", "))
		})
	})
	keyFlag(c, &key)
	c.Flags().StringVar(&to, "to", "", "empty `slot` for the key: 9a, 9c, 9d, 9e, 82 to 95 (required)")
	must(c.MarkFlagRequired("to"))
	a.secretFD(c.Flags(), "management-key-fd", "the management key, in hex,", isManagementKey)
	o = output(c)
	return c
}
