package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) bootstrapTokenList() *cobra.Command {
	var o *format
	var reveal bool
	c := a.inEnv(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the bootstrap tokens in the cluster",
		Example: `kubehsm bootstrap-token list
kubehsm bootstrap-token list --context prod -o json`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string, env *env.Env) error {
		all, notes, err := desk.NewBootstrapTokens(env).List(c.Context(), a.context, reveal)
		if err != nil {
			return err
		}
		w := a.err()
		for _, n := range notes {
			w.line("note: %s", n)
		}
		if err := w.flush(); err != nil {
			return err
		}
		doc := struct {
			Tokens []desk.BootstrapToken `json:"tokens"`
		}{all}
		return a.emit(o, doc, func(w *words) {
			if len(all) == 0 {
				w.line(present.NoTokens)
				return
			}
			rows, now := [][]string{}, time.Now()
			for _, t := range all {
				r := present.TokenRowOf(t, now)
				rows = append(rows, []string{r.Kind, r.Token, marked(r.Left.Words, r.Left.Level), r.Expires, r.For, r.Usages,
					r.Groups})
			}
			w.table([]string{"KIND", "TOKEN", "STILL GOOD", "EXPIRES", "FOR", "USAGES", "EXTRA GROUPS"}, rows)
		})
	})
	c.Flags().BoolVar(&reveal, "reveal", false, "show whole tokens, which are secrets")
	o = output(c)
	return c
}
