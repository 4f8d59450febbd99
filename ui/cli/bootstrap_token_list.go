package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) bootstrapTokenList() *cobra.Command {
	var o *format
	var reveal bool
	c := a.command(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the bootstrap tokens in the cluster",
		Example: `kubehsm bootstrap-token list
kubehsm bootstrap-token list --context prod -o json`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		env, err := a.env()
		if err != nil {
			return err
		}
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
				w.line("No bootstrap tokens.")
				return
			}
			var rows [][]string
			for _, t := range all {
				ttl, expires := "forever", "never"
				if t.Expires != nil {
					ttl, expires = duration.HumanDuration(max(0, time.Until(*t.Expires))), present.Date(*t.Expires)
				}
				rows = append(rows, []string{t.Token, ttl, expires, strings.Join(t.Usages, ","), t.Description, strings.Join(present.PlainGroups(t.Groups), ",")})
			}
			w.table([]string{"TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS"}, rows)
		})
	})
	c.Flags().BoolVar(&reveal, "reveal", false, "show whole tokens, which are secrets")
	o = output(c)
	return c
}
