package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) revocationLift() *cobra.Command {
	var o *format
	var yes bool
	c := a.inEnv(&cobra.Command{
		Use:   "lift HASH...",
		Short: "Lift the revocation of certificates",
		Long: `Takes certificates off the cluster's list, so that they write again. You must be allowed
to change admission policies: cluster admins are. HASH is the certificate's SHA-256, or
as many of its first digits as "kubehsm revocation list" shows.`,
		Example: "kubehsm revocation lift 5f1c2d3e4a5b6c7d",
		Args:    cobra.MinimumNArgs(1),
	}, func(c *cobra.Command, args []string, env *env.Env) error {
		ctx := c.Context()
		stopping := desk.NewStopping(env)
		list, err := stopping.List(ctx, a.context)
		if err != nil {
			return err
		}
		var doc struct {
			Lifted []revocation.Entry `json:"lifted"`
			*desk.Enforcement
		}
		var hashes []string
		for _, arg := range args {
			e, err := list.Named(arg)
			if err != nil {
				return &ui.UsageError{Err: err}
			}
			doc.Lifted, hashes = append(doc.Lifted, e), append(hashes, e.Certificate)
		}
		w := a.err()
		for _, e := range doc.Lifted {
			w.line("%s", present.RevokedEntry(e))
		}
		if err := w.flush(); err != nil {
			return err
		}
		if err := a.confirm(ctx, yes, "Lift the revocation?"); err != nil {
			return err
		}
		if doc.Enforcement, err = stopping.Lift(ctx, a.context, hashes); err != nil {
			return err
		}
		return a.emit(o, doc, func(w *words) {
			w.sections([]present.Section{{Lines: []present.Line{present.Enforced(*doc.Enforcement)}}})
		})
	})
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	o = output(c)
	return c
}
