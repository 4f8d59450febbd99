package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

func (a *app) agentPort() *cobra.Command {
	var yes bool
	var o *format
	c := a.inEnv(&cobra.Command{
		Use:   "port [PORT]",
		Short: "Show the bridge's port, or move it",
		Long: `Shows the address of the agent's bridge. With a port, moves the bridge there: the
agent ends, which closes open connections, and the kubeconfig entries that lead to
the bridge are rewritten, in the files that kubectl uses now. For entries in other
files, run "kubehsm kubeconfig set --kubeconfig FILE".`,
		Example: "kubehsm agent port\nkubehsm agent port 27001",
		Args:    cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string, env *env.Env) error {
		doc := struct {
			Address     string   `json:"address"`
			Moved       bool     `json:"moved"`
			Enrollments []string `json:"enrollments"`
		}{Enrollments: []string{}}
		if len(args) == 0 {
			var err error
			if doc.Address, err = contexts.New(env).BridgeAddress(); err != nil {
				return err
			}
			return a.emit(o, doc, func(w *words) { w.line("%s", doc.Address) })
		}
		port, err := strconv.ParseUint(args[0], 10, 16)
		if err != nil || port < 1024 {
			return ui.Usagef("port %q is not a number between 1024 and 65535", args[0])
		}
		move, err := contexts.New(env).MoveBridge(c.Context(), int(port))
		if err != nil {
			return err
		}
		w := a.err()
		w.line("The bridge moves from %s to %s. The agent ends, which cuts what is open.", move.From, move.To)
		for _, name := range move.Enrollments {
			w.line("The kubeconfig entry %s is rewritten.", name)
		}
		if err := w.flush(); err != nil {
			return err
		}
		if err := a.confirm(c.Context(), yes, "Move it?"); err != nil {
			return err
		}
		if err := move.Apply(c.Context()); err != nil {
			return err
		}
		doc.Address, doc.Moved, doc.Enrollments = move.To, true, append(doc.Enrollments, move.Enrollments...)
		return a.emit(o, doc, func(w *words) { w.line("The bridge is on %s.", doc.Address) })
	})
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	o = output(c)
	return c
}
