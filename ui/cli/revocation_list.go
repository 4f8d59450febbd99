package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) revocationList() *cobra.Command {
	var o *format
	c := a.inEnv(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the revoked certificates of a cluster",
		Long: `Lists the certificates whose writes the cluster refuses, from its admission policies,
and each Revocation that was filed for the approver, with its state. It fails if one of
the policies cannot be read, or has no effect.`,
		Example: "kubehsm revocation list\nkubehsm revocation list -o json",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string, env *env.Env) error {
		list, err := desk.NewStopping(env).List(c.Context(), a.context)
		if err != nil {
			return err
		}
		filed, err := desk.NewStopping(env).Filed(c.Context(), a.context)
		if err != nil {
			return err
		}
		doc := struct {
			Revoked  []revocation.Entry      `json:"revoked"`
			Settings revocation.Settings     `json:"settings"`
			Filed    []clusterapi.Revocation `json:"filed,omitempty"`
		}{[]revocation.Entry{}, list.Settings, filed}
		for e := range list.All() {
			doc.Revoked = append(doc.Revoked, e)
		}
		if err := a.emit(o, doc, func(w *words) {
			w.sections(append(present.Revocations(list), present.FiledRevocations(filed)...))
		}); err != nil {
			return err
		}
		return list.Err()
	})
	o = output(c)
	return c
}
