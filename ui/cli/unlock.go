package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/pinsource"
	"github.com/kubehsm/kubehsm/ui"
)

func (a *app) unlock() *cobra.Command {
	var name string
	c := a.command(&cobra.Command{
		Use:   "unlock [ENROLLMENT]",
		Short: "Type the PIN now, so that later commands do not ask for it",
		Long: `Unlocks the token of an enrollment in the agent: the named enrollment, else that of the
current context, else the only one. Use it before you run programs that have no
terminal.`,
		Example: "kubehsm unlock\nkubehsm unlock prod-hsm\nkubehsm unlock --pin-fd 3 3< pin",
		Args:    cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			if name != "" && name != args[0] {
				return ui.Usagef("two enrollments are named: %q and %q", name, args[0])
			}
			name = args[0]
		}
		e, err := a.enrollment(c.Context(), name)
		if err != nil {
			return err
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		client, err := a.ensureAgent(c.Context(), env.Dirs)
		if err != nil {
			return err
		}
		defer client.Close()
		client.Waiting = env.WaitingOf(c.Context())
		client.Given = a.pinFD >= 0 || pinsource.Gives(a.sources, e.Key)
		if err := client.Unlock(c.Context(), e.Name, a.prompter()); err != nil {
			return err
		}
		w := a.err()
		w.line("The token of %s is unlocked.", e.Name)
		return w.flush()
	})
	c.Flags().StringVar(&name, "enrollment", "", "`enrollment` to unlock")
	return c
}
