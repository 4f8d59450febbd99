package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

func (a *app) csrCancel() *cobra.Command {
	var o *format
	c := a.inEnv(&cobra.Command{
		Use:   "cancel REQUEST...",
		Short: "Cancel requests of your own",
		Long: `Deletes from the cluster requests that you, or this computer, filed. Another request
that now has the same name is not deleted.`,
		Example: "kubehsm csr cancel jane-1a2b3c4d",
		Args:    someNames("request"),
	}, func(c *cobra.Command, args []string, env *env.Env) error {
		for _, name := range args {
			if err := request.NewOwn(env).Cancel(c.Context(), a.context, name); err != nil {
				return err
			}
		}
		doc := struct {
			Cancelled []string `json:"cancelled"`
		}{args}
		return a.emit(o, doc, func(w *words) {
			for _, name := range args {
				w.line("%s: cancelled", name)
			}
		})
	})
	c.ValidArgsFunction = offer(a.ownRequestNames, false)
	o = output(c)
	return c
}
