package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/deeds"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) helpdeskList() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List tickets, approvals and revocations made on this computer",
		Example: "kubehsm helpdesk list\nkubehsm helpdesk list -o json",
		Args:    cobra.NoArgs,
	}, func(*cobra.Command, []string) error {
		env, err := a.env()
		if err != nil {
			return err
		}
		past, err := deeds.NewLog(env).All()
		if err != nil {
			return err
		}
		doc := struct {
			Record []deeds.Deed `json:"record"`
		}{append([]deeds.Deed{}, past...)}
		return a.emit(o, doc, func(w *words) { w.sections(present.Deeds(past)) })
	})
	o = output(c, wide)
	return c
}
