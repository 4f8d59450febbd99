package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/lost"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) rosterLost() *cobra.Command {
	var o *format
	var reason string
	var dryRun, yes bool
	var timeout time.Duration
	c := a.command(&cobra.Command{
		Use:   "lost TOKEN",
		Short: "Report that you have lost a token, and have its certificates revoked",
		Long: `For the owner of the token, who needs no rights of the help desk: sign in with another
token of yours. TOKEN is the serial number of the lost token, or its URI. The approver
checks that the roster gives you the token, marks it as lost and revokes its
certificates. They can write nothing more, and can read until they end. Requests for
keys in the token are denied. Your other tokens keep working. Only a cluster admin can
undo this.

The command waits until the revocation is in force (--timeout). Where no approver
runs, or if you have no other token, call the help desk.`,
		Example: `kubehsm roster lost 1234567
kubehsm roster lost 1234567 --context prod --reason 'left on a train'`,
		Args: cobra.ExactArgs(1),
	}, func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		if len([]rune(reason)) > lost.MaxNote {
			return ui.Usagef("--reason: it has more than %d characters", lost.MaxNote)
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		reports := lost.New(env)
		token, err := reports.LookUp(ctx, a.context, args[0])
		if errors.Is(err, lost.ErrSerial) {
			return &ui.UsageError{Err: err}
		}
		if err != nil {
			return err
		}
		if dryRun {
			return a.emit(o, token, func(w *words) { w.sections(present.LostToken(token)) })
		}
		w := a.err()
		w.sections(present.LostToken(token))
		if err := w.flush(); err != nil {
			return err
		}
		if err := a.confirm(ctx, yes, present.LostQuestion(token)); err != nil {
			return err
		}
		if err := reports.Report(ctx, a.context, &token, reason, timeout); err != nil {
			return err
		}
		return a.emit(o, token, func(w *words) { w.sections(present.LostDone(token)) })
	})
	c.Flags().StringVar(&reason, "reason", "", "`text` that the holder of the lost token sees in the error")
	c.Flags().DurationVar(&timeout, "timeout", lost.Patience,
		"how long to wait for the approver to revoke the certificates")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show what would end, and change nothing")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	o = output(c)
	return c
}
