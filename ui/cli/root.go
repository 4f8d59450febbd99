package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/waiting"
)

// execute runs the command that args name.
func (a *app) execute(ctx context.Context, args []string) error {
	trunk := a.trunkOf(args)
	a.offers = slices.Contains([]string{"token", "key", "certificate", "enroll"}, trunk)
	root := a.root(trunk)
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	c, err := root.ExecuteContextC(worker.WithWaiting(ctx, waiting.Library(a.Stderr)))
	var usage *ui.UsageError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &usage):
		if usage.Help == "" {
			usage.Help = c.CommandPath() + " --help"
		}
		return err
	case !a.started: // cobra's own: an unknown command, a malformed flag
		return &ui.UsageError{Err: err, Help: c.CommandPath() + " --help"}
	}
	return err
}

// root builds the tree of commands, or, to start quicker, only what is below one
// of the trunks.
func (a *app) root(only string) *cobra.Command {
	root := a.command(&cobra.Command{
		Use:   "kubehsm",
		Short: "Keep your Kubernetes key in a hardware token, and use stock kubectl with it",
		Long: `kubehsm keeps the private key of your Kubernetes credential in a hardware token
(a YubiKey or other PIV card, any HSM with a PKCS#11 library) and lets stock
kubectl, helm and the like sign in with it.

Without arguments it opens the terminal UI; on a terminal that cannot show it, or with
KUBEHSM_ACCESSIBLE=1, a menu of plain lines.`,
		Example: `kubehsm
kubehsm token list
kubehsm enroll --context prod --user jane --group dev`,
		Args: cobra.NoArgs,
	}, a.tui)
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: a.name()}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Flags().Bool("read-only", false, "open the terminal UI to look only: whatever changes something is refused")
	root.Version = a.Version
	flags := root.PersistentFlags()
	flags.StringVar(&a.kubeconfig, "kubeconfig", "",
		"`path` to the kubeconfig file; default $KUBECONFIG, else ~/.kube/config")
	flags.StringVar(&a.context, "context", "", "`name` of the kubeconfig context; default the current one")
	flags.StringVar(&a.cluster, "cluster", "", "`name` of the kubeconfig cluster to use in place of the context's")
	flags.StringVar(&a.requestTimeout, "request-timeout", "",
		"how `long` one request to an API server may take, such as 10s; default 30s")
	flags.StringVar(&a.module, "module", "", "`path` of a PKCS#11 library to use beside those that are configured")
	flags.IntVar(&a.pinFD, "pin-fd", -1,
		"read the PIN from this open file `descriptor` instead of asking; it is tried only once")
	flags.Lookup("pin-fd").DefValue = "0" // not shown

	for _, t := range a.trunks() {
		if only == "" || only == t.name {
			root.AddCommand(t.grow())
		}
	}
	for _, c := range everyCommand(root) {
		c.Example = a.examples(c.Example)
	}
	if only == "" { // shells ask the whole tree
		a.complete(root)
	}
	return root
}

// trunk is a command below the root, made when it is wanted.
type trunk struct {
	name string
	grow func() *cobra.Command
}

func (a *app) trunks() []trunk {
	group := func(name, short string, verbs ...func() *cobra.Command) trunk {
		return trunk{name, func() *cobra.Command {
			made := make([]*cobra.Command, len(verbs))
			for i, verb := range verbs {
				made[i] = verb()
			}
			return a.group(name, short, made...)
		}}
	}
	return []trunk{
		group("token", "Look at and administer hardware tokens",
			a.tokenList, a.tokenInfo, a.tokenWait, a.tokenRelease, a.tokenPIN, a.tokenPUK, a.tokenManagementKey, a.tokenRetries,
			a.tokenInit, a.tokenReset),
		group("key", "Make, look at and remove keys on tokens",
			a.keyGenerate, a.keyList, a.keyShow, a.keyAttest, a.keyMove, a.keyDelete),
		group("csr", "File, follow and decide certificate requests",
			a.csrForecast, a.csrCreate, a.csrList, a.csrShow, a.csrWait, a.csrResume, a.csrCancel, a.csrApprove, a.csrDeny),
		group("certificate", "Look at certificates, put them on a token, take them off",
			a.certificateShow, a.certificateRenew, a.certificateImport, a.certificateExport, a.certificateDelete),
		group("attestation", "Verify what tokens state about their keys", a.attestationVerify),
		group("kubeconfig", "Look at and change kubeconfig entries", a.kubeconfigSet, a.kubeconfigRefresh, a.kubeconfigList,
			a.kubeconfigUse, a.kubeconfigCheck, a.kubeconfigMigrate, a.kubeconfigRemove, a.kubeconfigHistory, a.kubeconfigUndo),
		group("consent", "Say which requests need your yes", a.consentShow, a.consentSet),
		group("agent", "Look at and end the agent that keeps tokens unlocked",
			a.agentStatus, a.agentLock, a.agentStop, a.agentPort, a.agentUnit, a.agentServe, a.agentHold),
		group("helpdesk", "Make tickets for those who join, approve their requests, take access away",
			a.helpdeskTicket, a.helpdeskApprove, a.helpdeskRevoke, a.helpdeskOpen, a.helpdeskList),
		group("breakglass", "Ask for, approve and watch over access in an emergency",
			a.breakglassRequest, a.breakglassApprove, a.breakglassSeal, a.breakglassList),
		group("rbac", "Print, apply and check the roles and policies for tickets, help desk and break-glass",
			a.rbacPrint, a.rbacApply, a.rbacCheck),
		group("bootstrap-token", "Make, list and delete the tokens that new users join with",
			a.bootstrapTokenCreate, a.bootstrapTokenList, a.bootstrapTokenDelete, a.bootstrapTokenGenerate),
		group("external-signer", "Serve clients that ask a signer themselves (docs/kubectl.md)", a.externalSignerServe),
		{"enroll", a.enroll}, {"unenroll", a.unenroll}, {"join", a.join}, {"status", a.status}, {"unlock", a.unlock}, {"audit", a.audit},
		{"doctor", a.doctor}, {"credential", a.credential}, {"version", a.version},
		{"exit-codes", exitCodesTopic}, {"output", outputTopic},
	}
}

// trunkOf names the trunk that the arguments begin with, "" if they begin with
// anything else: then the whole tree is needed, for help or suggestions.
func (a *app) trunkOf(args []string) string {
	for _, t := range a.trunks() {
		if len(args) > 0 && args[0] == t.name {
			return t.name
		}
	}
	return ""
}

// command gives c its work and the house's form of usage errors.
func (a *app) command(c *cobra.Command, run func(c *cobra.Command, args []string) error) *cobra.Command {
	c.DisableFlagsInUseLine = false
	c.RunE = func(c *cobra.Command, args []string) error {
		a.started = true
		if err := a.descriptorsOpen(); err != nil {
			return err
		}
		if err := a.sourcesListed(c.Flags()); err != nil {
			return err
		}
		return run(c, args)
	}
	return c
}

// group is a command that only has commands below it.
func (a *app) group(name, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: name, Short: short,
		Example: verbs[0].Example,
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknownCommand(c, args[0])
		},
	}
	c.AddCommand(verbs...)
	return c
}

// unknownCommand words a verb that does not exist, with what may have been meant.
func unknownCommand(c *cobra.Command, name string) error {
	err := fmt.Errorf("unknown command %q for %q", name, c.CommandPath())
	c.SuggestionsMinimumDistance = 2
	if like := c.SuggestionsFor(name); len(like) > 0 {
		err = hint.With(err, "did you mean `"+c.CommandPath()+" "+like[0]+"`?")
	}
	return &ui.UsageError{Err: err}
}

// examples indents the examples and puts in the name that the user knows the
// program by.
func (a *app) examples(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if rest, ok := strings.CutPrefix(l, "kubehsm"); ok {
			l = a.name() + rest
		}
		lines[i] = "  " + l
	}
	return strings.Join(lines, "\n")
}

func everyCommand(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, everyCommand(sub)...)
	}
	return all
}

// envReadOnly, if it is neither empty nor 0, is as --read-only.
const envReadOnly = "KUBEHSM_READ_ONLY"

// tui opens the terminal UI, at the enrollment where nothing is enrolled. On a terminal that it cannot draw on the same is
// offered line by line; without a terminal the help is the answer.
func (a *app) tui(c *cobra.Command, _ []string) error {
	env, err := a.env()
	if err != nil {
		return err
	}
	readOnly, err := c.Flags().GetBool("read-only")
	if err != nil {
		return err
	}
	if v := a.Getenv(envReadOnly); v != "" && v != "0" {
		readOnly = true
	}
	enrolled, err := env.Enrollments().List() // the screens say what is wrong with them
	nothing := err == nil && len(enrolled) == 0
	err = a.screen(c.Context(), TUIOptions{Env: env, ReadOnly: readOnly, Enroll: nothing && !readOnly})
	switch {
	case plainTerminal(err):
		return a.menu(c.Context(), readOnly)
	case errors.Is(err, hsm.ErrNoTerminal):
		return c.Help()
	}
	return err
}

// screen runs the terminal UI. A new PUK that was not kept there is shown once it is left.
func (a *app) screen(ctx context.Context, o TUIOptions) error {
	result, err := a.TUI(ctx, o)
	if result == nil {
		return err
	}
	return errors.Join(err, a.showPUK(result))
}

// plainTerminal tells whether the terminal UI could not be shown on a terminal
// that plain lines can be shown on.
func plainTerminal(err error) bool {
	var p interface{ Plain() bool }
	return errors.As(err, &p) && p.Plain()
}
