package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) kubeconfigList() *cobra.Command {
	var o *format
	c := a.inEnv(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the contexts in the kubeconfig, and which of them sign in with a token",
		Example: "kubehsm kubeconfig list\nkubehsm kubeconfig list --kubeconfig ./config -o json",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string, env *env.Env) error {
		all, err := contexts.New(env).List(c.Context())
		if err != nil {
			return err
		}
		doc := struct {
			Contexts []contexts.View `json:"contexts"`
		}{all}
		return a.emit(o, doc, func(w *words) {
			if len(all) == 0 {
				w.line("%s", present.NoContexts)
				return
			}
			rows := make([][]string, 0, len(all))
			for _, v := range all {
				mark := ""
				if v.Current {
					mark = "*"
				}
				kind, level := present.SignsInBy(v)
				rows = append(rows, []string{mark, v.Name, present.Server(v), marked(kind, level), present.Keys(v), v.Namespace,
					v.File})
			}
			w.table([]string{"CURRENT", "NAME", "SERVER", "SIGNS IN BY", "ENROLLMENT", "NAMESPACE", "FILE"}, rows)
		})
	})
	o = output(c)
	return c
}
