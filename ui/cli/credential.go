package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/credential"
)

// credential is the command that kubectl runs, through kubehsm-credential if the agent is not
// enough.
func (a *app) credential() *cobra.Command {
	var name, attend, version string
	c := a.command(&cobra.Command{
		Use:   "credential",
		Short: "Give kubectl a credential (kubectl runs this)",
		Long: `The exec credential plugin (KEP-541). It asks for the PIN on the terminal if the token
is locked, has the key on the token sign the connection to the API server, and prints a
credential for the local bridge.

Kubeconfig entries name the small program kubehsm-credential where that is installed beside
kubehsm. It takes the same arguments, and runs kubehsm if the agent has no credential ready.

The client describes its cluster in KUBERNETES_EXEC_INFO. Without that variable, the
arguments alone decide.`,
		Example: "kubehsm credential --enrollment prod-hsm",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		run := credential.Command{Getenv: a.Getenv, Stdout: a.Stdout, Stderr: a.Stderr,
			Executable: a.Executable, Version: a.Version, APIVersion: version, Prompter: a.asker}
		if attend != "" {
			client, err := credential.ParseProcess(attend)
			if err != nil {
				return &ui.UsageError{Err: fmt.Errorf("--attend: %w", err)}
			}
			return run.Attend(c.Context(), client)
		}
		return run.Answer(c.Context(), name)
	})
	c.Flags().StringVar(&name, "enrollment", "", credential.EnrollmentUsage)
	c.Flags().StringVar(&version, "api-version", "",
		"`version` of the protocol, if the client does not set one: v1 or v1beta1 (default)")
	c.Flags().StringVar(&attend, "attend", "",
		"ask on this terminal about the requests of this `process`; the plugin starts it so")
	if err := c.Flags().MarkHidden("attend"); err != nil {
		panic(err)
	}
	return c
}
