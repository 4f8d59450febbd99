package cli

import (
	"bytes"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) rosterList() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the tokens on the roster of a cluster, and who has come",
		Example: `kubehsm roster list
kubehsm roster list --context prod -o json`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		env, err := a.env()
		if err != nil {
			return err
		}
		all, err := desk.NewRoster(env).List(c.Context(), a.context)
		if err != nil {
			return err
		}
		doc := struct {
			Tokens []desk.RosterEntry `json:"tokens"`
		}{all}
		return a.emit(o, doc, func(w *words) { w.sections([]present.Section{present.Roster(all, time.Now())}) })
	})
	o = output(c)
	return c
}

func (a *app) rosterImport() *cobra.Command {
	var o *format
	var dryRun, yes bool
	c := a.command(&cobra.Command{
		Use:   "import FILE",
		Short: "Write a list of tokens and their owners on the roster of a cluster",
		Long: `Reads comma-separated values; the first line names the columns. There are
serial, owner, groups (with semicolons between them), horizon (a date, the last day of
the last certificate) and state (Stock, HandedOut, Active, Lost, Retired). Only serial
must be there. Tokens and columns that the list does not name stay as they are.`,
		Example: `kubehsm roster import people.csv
kubehsm roster import - --dry-run < people.csv`,
		Args: cobra.ExactArgs(1),
	}, func(c *cobra.Command, args []string) error {
		list, err := a.readAll(args[0])
		if err != nil {
			return err
		}
		all, err := desk.ReadRoster(bytes.NewReader(list))
		if err != nil {
			return err
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		w := a.err()
		w.sections([]present.Section{present.Roster(all, time.Now())})
		if err := w.flush(); err != nil {
			return err
		}
		if !dryRun {
			if err := a.confirm(c.Context(), yes, fmt.Sprintf("Write these %d tokens on the roster?", len(all))); err != nil {
				return err
			}
		}
		n, err := desk.NewRoster(env).Import(c.Context(), a.context, all, dryRun)
		if err != nil {
			return fmt.Errorf("%d of %d tokens are on the roster: %w", n, len(all), err)
		}
		doc := struct {
			Written int `json:"written"`
		}{n}
		return a.emit(o, doc, func(w *words) {
			if dryRun {
				w.line("Nothing was changed. The cluster would take %d tokens.", n)
				return
			}
			w.line("%d tokens are on the roster.", n)
		})
	})
	c.Flags().BoolVar(&dryRun, "dry-run", false, "have the cluster check everything, and change nothing")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	o = output(c)
	return c
}
