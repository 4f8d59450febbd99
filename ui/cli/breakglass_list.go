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
		Short:   "List the enrollments for emergencies and when they expire",
		Long:    `Lists the enrollments for emergencies that were requested on this computer.`,
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
		return a.emit(o, doc, func(w *words) { w.sections(present.Emergencies(all)) })
	})
	o = output(c)
	return c
}
