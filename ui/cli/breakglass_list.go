package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) breakglassList() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls", "status"},
		Short:   "List what there is for emergencies, and until when it is good",
		Long: `Lists the enrollments for emergencies that were made here: those that were asked for,
and sealed tokens. A sealed one is due thirty days before it ends.`,
		Example: "kubehsm breakglass list\nkubehsm breakglass list -o json",
		Args:    cobra.NoArgs,
	}, func(*cobra.Command, []string) error {
		env, err := a.env()
		if err != nil {
			return err
		}
		all, err := desk.NewBreakGlass(env).List()
		if err != nil {
			return err
		}
		doc := struct {
			BreakGlass []desk.BreakGlassView `json:"breakGlass"`
		}{all}
		return a.emit(o, doc, func(w *words) {
			if len(all) == 0 {
				w.line("Nothing is prepared for emergencies here.")
				return
			}
			var rows [][]string
			for _, v := range all {
				kind, state := "asked for", v.State
				if v.Sealed {
					kind = "sealed"
				}
				if state == "due" {
					state = "due: enroll it again before it ends"
				}
				rows = append(rows, []string{v.Name, kind, v.User, v.Server, present.Date(v.NotAfter), state})
			}
			w.table([]string{"NAME", "KIND", "USER", "CLUSTER", "UNTIL", "STATE"}, rows)
		})
	})
	o = output(c)
	return c
}
