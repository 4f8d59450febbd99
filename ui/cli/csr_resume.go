package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) csrResume() *cobra.Command {
	var o *format
	c := a.inEnv(&cobra.Command{
		Use:   "resume REQUEST...",
		Short: "File requests that were signed but not filed",
		Long: `Files requests as they were signed before, without asking for a PIN. A request that
is in the cluster already is shown.`,
		Example: "kubehsm csr resume jane-1a2b3c4d",
		Args:    someNames("request"),
	}, func(c *cobra.Command, args []string, env *env.Env) error {
		var views []request.View
		for _, name := range args {
			v, err := request.NewOwn(env).Resume(c.Context(), a.context, name)
			if err != nil {
				return err
			}
			views = append(views, v)
		}
		return a.emit(o, requestsDoc(views), func(w *words) {
			for _, v := range views {
				line := v.Name + ": " + v.State
				if v.Message != "" {
					line += ": " + present.Note(v.Message)
				}
				w.line("%s", line)
			}
		})
	})
	c.ValidArgsFunction = offer(a.ownRequestNames, false)
	o = output(c)
	return c
}
