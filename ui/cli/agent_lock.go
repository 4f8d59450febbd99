package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/agent"
)

func (a *app) agentLock() *cobra.Command {
	return a.agentVerb(&cobra.Command{
		Use:   "lock",
		Short: "Forget every PIN and cut every connection that a token signed",
		Long: `Forgets every PIN, locks the tokens and cuts the connections that they signed.
The agent goes on; the next kubectl command asks for the PIN.`,
		Example: "kubehsm agent lock",
	}, (*agent.Client).Lock, "Locked.")
}

// agentVerb makes a command that has the running agent do something. Where
// none runs there is nothing to do.
func (a *app) agentVerb(c *cobra.Command, do func(*agent.Client, context.Context) error, done string) *cobra.Command {
	c.Args = cobra.NoArgs
	return a.command(c, func(c *cobra.Command, _ []string) error {
		running, err := a.withAgent(c.Context(), func(client *agent.Client) error { return do(client, c.Context()) })
		if err != nil {
			return err
		}
		w := a.err()
		if running {
			w.line("%s", done)
		} else {
			w.line("The agent is not running: nothing to do.")
		}
		return w.flush()
	})
}
