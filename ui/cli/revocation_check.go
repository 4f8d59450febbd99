package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) revocationCheck() *cobra.Command {
	var o *format
	c := a.inEnv(&cobra.Command{
		Use:   "check",
		Short: "Prove that revocation works in a cluster, with a certificate made for it",
		Long: `Requests and approves a certificate for ten minutes, writes with it, revokes it, tries
again, lifts the revocation and writes again. The certificate's user may create
ConfigMaps in the namespace default, in a role that is removed at the end. You must be
allowed to approve requests and to change roles and admission policies.`,
		Example: "kubehsm revocation check --context prod",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string, env *env.Env) error {
		steps, err := desk.NewTrial(env).Run(c.Context(), a.context)
		if len(steps) == 0 && err != nil {
			return err
		}
		doc := struct {
			Steps []desk.TrialStep `json:"steps"`
		}{steps}
		return errors.Join(a.emit(o, doc, func(w *words) { w.sections(present.Trial(steps)) }), err,
			desk.TrialErr(steps))
	})
	o = output(c)
	return c
}
