package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
)

// oneName wants exactly one argument.
func oneName(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return ui.Usagef("the name of the %s is missing", what)
		case 1:
			return nil
		}
		return ui.Usagef("one %s at a time: %q is one name too many", what, args[1])
	}
}

func (a *app) csrShow() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use:     "show NAME",
		Short:   "Show a certificate request: who asks, for whom, with which key",
		Example: "kubehsm csr show jane-1a2b3c4d\nkubehsm csr show jane-1a2b3c4d -o yaml",
		Args:    oneName("request"),
	}, func(c *cobra.Command, args []string) error {
		env, err := a.env()
		if err != nil {
			return err
		}
		v, err := env.Request(c.Context(), a.context, args[0])
		if err != nil {
			return err
		}
		return a.emit(o, v, func(w *words) { requestWords(w, v) })
	})
	o = output(c)
	return c
}
