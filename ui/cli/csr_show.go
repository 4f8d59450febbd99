package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/present"
)

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

func someNames(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return ui.Usagef("the name of the %s is missing", what)
		}
		return nil
	}
}

func (a *app) csrShow() *cobra.Command {
	var o *format
	var root string
	c := a.command(&cobra.Command{
		Use:   "show REQUEST",
		Short: "Show a certificate request: requester, user, groups and key",
		Long: `Shows what an approver must know: the requester, the rights of the user and the
groups, the fingerprint of the key in hex and as eight words to read over the phone,
and whether the attestation of the key is verified. What you may not look up is shown
as unknown.`,
		Example: `kubehsm csr show jane-1a2b3c4d
kubehsm csr show jane-1a2b3c4d --root maker.pem -o yaml`,
		Args: oneName("request"),
	}, func(c *cobra.Command, args []string) error {
		roots, err := a.readRoots(root)
		if err != nil {
			return err
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		v, err := request.NewRequests(env).Look(c.Context(), a.context, args[0], request.LookOptions{Roots: roots})
		if err != nil {
			return err
		}
		return a.emit(o, v, func(w *words) { requestWords(w, v, present.Request(v, time.Now())) })
	})
	c.Flags().StringVar(&root, "root", "", rootUsage)
	o = output(c)
	return c
}
