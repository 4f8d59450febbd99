package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/session"
)

func (a *app) agentLock() *cobra.Command {
	return a.agentVerb(&cobra.Command{
		Use:   "lock",
		Short: "Lock all tokens and close their connections",
		Long: `Forgets every PIN, locks the tokens and closes the connections that they signed. The
agent goes on running. The next kubectl command asks for the PIN.

On Linux, the command kills an agent that does not answer, and makes cards forget
their PIN.`,
		Example: "kubehsm agent lock",
	}, session.Agent.LockAgent, "Locked.")
}

func (a *app) agentVerb(c *cobra.Command, do func(session.Agent, context.Context, func(string)) error,
	done string) *cobra.Command {
	c.Args = cobra.NoArgs
	return a.command(c, func(c *cobra.Command, _ []string) error {
		dirs, err := a.dirs()
		if err != nil {
			return err
		}
		with, err := a.env()
		if err != nil { // a broken configuration keeps nothing unlocked
			with = &env.Env{Dirs: dirs}
		}
		w := a.err()
		err = do(session.Agent{Env: with}, c.Context(), func(sentence string) {
			w.line("%s", sentence)
			_ = w.flush() // the result stands even if this sentence is lost
		})
		switch {
		case errors.Is(err, client.ErrNotRunning):
			w.line("The agent is not running: nothing to do.")
		case err != nil:
			return err
		default:
			w.line("%s", done)
		}
		return w.flush()
	})
}
