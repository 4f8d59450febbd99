package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) rosterList() *cobra.Command {
	var o *format
	c := a.inEnv(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the tokens on the roster of a cluster, and who has enrolled",
		Long: `Lists the tokens with their owners and how far they are: waiting or denied (the owner's
last request), expired, expiring (within two days), not come, in, in stock, lost,
retired.`,
		Example: `kubehsm roster list
kubehsm roster list --context prod -o json`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string, env *env.Env) error {
		board, err := desk.NewRoster(env).Board(c.Context(), a.context, time.Now())
		if err != nil {
			return err
		}
		return a.emit(o, board, func(w *words) {
			if len(board.Tokens) > 0 {
				w.sections([]present.Section{present.Roster(board.Tokens, time.Now())})
			}
			w.line("%s", present.Stages(board))
			if board.Unknown != "" {
				w.line("%s", present.RosterUnknown(board.Unknown).Words)
			}
		})
	})
	o = output(c, wide)
	return c
}

func (a *app) rosterImport() *cobra.Command {
	var o *format
	var dryRun, yes bool
	var serials string
	c := a.command(&cobra.Command{
		Use:   "import FILE",
		Short: "Write a list of tokens and their owners on the roster of a cluster",
		Long: `Reads comma-separated values; the first line names the columns. There are
serial, owner, groups (with semicolons between them), horizon (a date, the last day of
the last certificate) and state (Stock, HandedOut, Active, Lost, Retired). Only serial
is required. Tokens and columns that the list does not name stay as they are.

With --serial-column, FILE is a maker's list of what was delivered: kubehsm reads the serial
numbers in that column and ignores the other columns. New tokens are in stock.`,
		Example: `kubehsm roster import people.csv
kubehsm roster import delivery.csv --serial-column 'Serial Number'
kubehsm roster import - --dry-run < people.csv`,
		Args: cobra.ExactArgs(1),
	}, func(c *cobra.Command, args []string) error {
		if c.Flags().Changed("serial-column") && strings.TrimSpace(serials) == "" {
			return ui.Usagef("--serial-column: the name of the column is empty")
		}
		list, err := a.readAll(args[0])
		if err != nil {
			return err
		}
		all, err := desk.ReadRoster(list, serials)
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
			if err := a.confirm(c.Context(), yes, present.ImportQuestion(len(all))); err != nil {
				return err
			}
		}
		n, err := desk.NewRoster(env).Import(c.Context(), a.context, all, dryRun)
		if err != nil {
			return fmt.Errorf("%d of %d tokens were accepted: %w", n, len(all), err)
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
	c.Flags().StringVar(&serials, "serial-column", "", "read only the serial numbers, in the column of this `NAME`")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "have the cluster check everything, and change nothing")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	o = output(c)
	return c
}

func (a *app) rosterRemove() *cobra.Command {
	var ch change
	var lost bool
	c := a.inEnv(&cobra.Command{
		Use:   "remove NAME...",
		Short: "End the renewals of tokens: their owner has left, or lost them",
		Long: `Makes tokens retired, or lost with --lost: a key in such a token gets no further
certificate. NAME is a serial number, or a user: then it means all tokens of that
user, and ends the user's tickets. The tokens stay on the roster.

A certificate that was already issued is valid until it expires. To stop its writes at
once, use "kubehsm helpdesk revoke".`,
		Example: `kubehsm roster remove jane
kubehsm roster remove 1234567 --lost`,
		Args: cobra.MinimumNArgs(1),
	}, func(c *cobra.Command, args []string, env *env.Env) error {
		ctx := c.Context()
		roster := desk.NewRoster(env)
		leaving, err := roster.Leaving(ctx, a.context, args)
		if err != nil {
			return err
		}
		w := a.err()
		if ch.dryRun && ch.out.value == "" {
			w = a.out()
		}
		w.sections(present.Leaving(leaving, time.Now()))
		if err := w.flush(); err != nil {
			return err
		}
		doc := struct {
			desk.Leaving
			Changed int `json:"changed"`
		}{Leaving: leaving}
		if !ch.dryRun {
			if err := a.confirm(ctx, ch.yes, present.RosterQuestion(leaving.Tokens, lost)); err != nil {
				return err
			}
			if doc.Changed, err = roster.Leave(ctx, a.context, leaving, lost); err != nil {
				return fmt.Errorf("%d of %d tokens were changed: %w", doc.Changed, len(leaving.Tokens), err)
			}
		}
		return a.emit(ch.out, doc, func(w *words) {
			if ch.dryRun {
				w.line("Nothing was changed.")
				return
			}
			w.line("Tokens changed: %d. Tickets ended: %d.", doc.Changed, len(doc.Tickets))
			w.block(present.RosterRemoved)
		})
	})
	c.Flags().BoolVar(&lost, "lost", false, "the tokens are lost, not returned")
	ch.bind(c)
	return c
}

func (a *app) rosterLine() *cobra.Command {
	var o *format
	line := desk.LineOptions{}
	c := a.inEnv(&cobra.Command{
		Use:   "line",
		Short: "Print the one command with which everybody on the roster joins",
		Long: `Makes a token that can only file requests and look up the owner of a hardware token, and
prints a command that joins with it. The command is the same for everybody: it asks for
the name and groups that the roster gives the inserted token. The attestation of the key
proves which token it is. The approver approves no other request from this command.

Where the cluster does not show its cluster-info to everybody, as k3s, Talos and OpenShift
may not, the command contains the cluster's authority; with --self-contained it always
does. Where the cluster does not accept bootstrap tokens, use --file-only: the command
then contains a service account's token. Treat the command as a secret: whoever has it
can file requests until its token ends (--ttl).`,
		Example: `kubehsm roster line --name prod
kubehsm roster line --self-contained --ttl 168h`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string, env *env.Env) error {
		v, err := desk.NewBootstrapTokens(env).JoinLine(c.Context(), a.context, line)
		if err != nil {
			return usage(err)
		}
		w := a.err()
		for _, warning := range v.Warnings {
			w.line("warning: %s", warning)
		}
		if err := w.flush(); err != nil {
			return err
		}
		return a.emit(o, v, func(w *words) { w.line("%s", v.Join) })
	})
	c.Flags().DurationVar(&line.TTL, "ttl", bootstraptoken.DefaultTTL,
		"lifetime of the token in the line, a `duration`; 0: it never expires (not with --file-only)")
	c.Flags().DurationVar(&line.Lifetime, "lifetime", desk.DefaultLineLifetime,
		"`lifetime` of the certificates that are asked for")
	c.Flags().StringSliceVar(&line.Groups, "group", nil,
		"`group` that everybody asks for, may be repeated; default: each owner's groups on the roster")
	c.Flags().StringVar(&line.Name, "name", "", "`name` proposed for the enrollment and the context")
	c.Flags().BoolVar(&line.Whole, "self-contained", false, "put the cluster's authority into the line")
	c.Flags().BoolVar(&line.FileOnly, "file-only", false,
		"use a service account's token instead of a bootstrap token; it can do no more")
	o = output(c)
	return c
}
