package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/prompt"
)

// credentialCoolDown keeps a cancelled prompt from coming back when a client
// starts the plugin again at once.
const credentialCoolDown = 5 * time.Second

const credentialUsage = "`name` of the enrolment, as the kubeconfig entry gives it"

func (a *app) credential() *cobra.Command {
	var name string
	c := a.command(&cobra.Command{
		Use:   "credential",
		Short: "Answer kubectl's request for a credential (kubectl runs this)",
		Long: `The exec credential plugin (KEP-541) that kubeconfig entries name. It unlocks the
token if need be, asking on the terminal, has the connection to the API server
signed by the key on the token, and prints a credential for the local bridge.`,
		Example: "kubehsm credential --enrollment prod-hsm",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error { return a.answer(c.Context(), name) })
	c.Flags().StringVar(&name, "enrollment", "", credentialUsage)
	return c
}

// credentialArgs is the command without the tree of commands around it.
func (a *app) credentialArgs(ctx context.Context, args []string) error {
	var name string
	flags := pflag.NewFlagSet("credential", pflag.ContinueOnError)
	flags.Usage = func() {}
	flags.StringVar(&name, "enrollment", "", credentialUsage)
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err != nil {
		return &ui.UsageError{Err: err, Help: a.name() + " credential --help"}
	}
	return a.answer(ctx, name)
}

// answer writes the credential to standard output, in one piece and nothing
// else.
func (a *app) answer(ctx context.Context, name string) error {
	request, err := execcredential.Read(a.Getenv(execcredential.EnvVar))
	if err != nil {
		return err
	}
	if name, err = enrolmentOf(name, request); err != nil {
		return err
	}
	dirs, err := a.dirs()
	if err != nil {
		return err
	}
	if err := sameServer(enrollment.NewStore(dirs), name, request); err != nil {
		return err
	}
	client, err := a.ensureAgent(ctx, dirs)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // only read from
	session, err := client.Prepare(ctx, agent.PrepareRequest{
		Enrollment: name,
		Client:     bridge.ParentProcess(),
		Purpose:    hsm.Purpose{Cluster: name, Action: "sign in", Command: parentCommand()},
	}, a.prompter(func(o *prompt.Options) { o.CoolDown, o.Hint = credentialCoolDown, "" }))
	if err != nil {
		return err
	}
	defer clear(session.Key)
	return execcredential.Write(a.Stdout, request.APIVersion, execcredential.Response{
		CertificatePEM: session.Certificate, KeyPEM: session.Key, Expiration: session.Expires,
	})
}

// extension is what kubehsm writes into the cluster's exec extension.
type extension struct {
	Enrollment string `json:"enrollment"`
	Server     string `json:"server"`
}

func extensionOf(r execcredential.Request) (extension, error) {
	var e extension
	if r.Cluster == nil || len(r.Cluster.Config) == 0 {
		return e, nil
	}
	if err := json.Unmarshal(r.Cluster.Config, &e); err != nil {
		return e, hsm.WithHint(errors.New("the cluster's exec extension in the kubeconfig is not kubehsm's"), rewriteHint)
	}
	return e, nil
}

const rewriteHint = "write the entry anew with `kubehsm kubeconfig set`"

// enrolmentOf is the enrolment that the arguments name, or else the cluster's
// extension. Where both do they must agree: somebody has mixed the user of one
// cluster with another cluster otherwise.
func enrolmentOf(name string, r execcredential.Request) (string, error) {
	e, err := extensionOf(r)
	switch {
	case err != nil:
		return "", err
	case name == "" && e.Enrollment == "":
		return "", hsm.WithHint(ui.Usagef("neither the arguments nor the cluster name an enrolment"), rewriteHint)
	case name == "":
		return e.Enrollment, enrollment.ValidName(e.Enrollment)
	case e.Enrollment != "" && e.Enrollment != name:
		return "", hsm.WithHint(fmt.Errorf("the kubeconfig's user is for the enrolment %q, its cluster for %q", name, e.Enrollment), rewriteHint)
	}
	return name, enrollment.ValidName(name)
}

// sameServer refuses an entry that shows another API server than the enrolled
// one: the user would read of one cluster and work on another.
func sameServer(store enrollment.Store, name string, r execcredential.Request) error {
	known, err := store.Load(name)
	if err != nil {
		return err
	}
	e, err := extensionOf(r)
	if err != nil {
		return err
	}
	if e.Server != "" && e.Server != known.Cluster.Server {
		return hsm.WithHint(fmt.Errorf("the kubeconfig's cluster says %s, but %q was enrolled for %s", e.Server, name, known.Cluster.Server), rewriteHint)
	}
	return nil
}
