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
		Short:   "List what was done from here: tickets, approvals, revocations, break-glass",
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
		return a.emit(o, doc, func(w *words) { deedWords(w, past) })
	})
	o = output(c)
	return c
}

func deedWords(w *words, past []deeds.Deed) {
	if len(past) == 0 {
		w.line("Nothing was done from here yet.")
		return
	}
	var rows [][]string
	for _, d := range past {
		what, until := d.Request, ""
		if what == "" {
			what = d.Ticket
		}
		if d.Expires != nil {
			until = present.Date(*d.Expires)
		}
		rows = append(rows, []string{present.Date(d.Time), d.Action, what, d.User, d.Server, until, d.Reason})
	}
	w.table([]string{"WHEN", "WHAT", "REQUEST OR TICKET", "USER", "CLUSTER", "UNTIL", "REASON"}, rows)
}
