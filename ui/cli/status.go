package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/overview"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) status() *cobra.Command {
	var o *format
	var short bool
	c := a.inEnv(&cobra.Command{
		Use:   "status",
		Short: "Show who you are, whether the token is unlocked, and what to do next",
		Long: `Shows the current context and its user, whether the token is there and unlocked, when
the certificates expire, unfinished enrollments, and the next step. It reads files, asks
the running agent, and looks whether the key is still on the token. It asks nobody for a
PIN or a touch, and changes nothing.

With --short, prints one line for a shell prompt, or nothing if the current context is
not one of kubehsm's. It then looks at no token.`,
		Example: "kubehsm status\nkubehsm status --short\nkubehsm status -o json",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string, env *env.Env) error {
		look := overview.Look
		if short {
			look = overview.Glance
		}
		now := time.Now()
		s := look(c.Context(), env, now)
		return a.emit(o, s, func(w *words) {
			if !short {
				w.sections(present.Overview(s, now))
				return
			}
			if line := present.OverviewShort(s, now); line != "" {
				w.line("%s", line)
			}
		})
	})
	c.Flags().BoolVar(&short, "short", false, "print one line for a shell prompt")
	o = output(c)
	c.MarkFlagsMutuallyExclusive("short", "output")
	return c
}
