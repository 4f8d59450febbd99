package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/waiting"
)

func (a *app) execute(ctx context.Context, args []string) error {
	trunk := a.trunkOf(args)
	if len(args) == 0 {
		trunk = noTrunk
	}
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
	case !a.started: // an error of cobra's, such as a malformed flag
		return &ui.UsageError{Err: plainly(err), Help: c.CommandPath() + " --help"}
	}
	return err
}

// noTrunk is the name of no trunk: the terminal UI needs no command.
const noTrunk = "-"

// root builds the tree of commands, or only one of its trunks, which starts faster.
func (a *app) root(only string) *cobra.Command {
	root := a.command(&cobra.Command{
		Use:   "kubehsm",
		Short: "Keep your Kubernetes key in a hardware token, and use stock kubectl with it",
		Long: `kubehsm keeps the private key of your Kubernetes credential in a hardware token
(a YubiKey or another PIV card, or any HSM with a PKCS#11 library). kubectl, helm
and other programs sign in with it, unchanged.

Without arguments kubehsm opens the terminal UI. On a terminal that cannot show
it, or with KUBEHSM_ACCESSIBLE=1, it names the commands that do the same in plain lines.`,
		Example: `kubehsm
kubehsm token list
kubehsm enroll --context prod --user jane --group dev`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return nil
		},
	}, a.tui)
	root.SetHelpFunc(a.help)
	root.SetFlagErrorFunc(unknownFlag)
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: a.name()}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Flags().Bool("read-only", false, "open the terminal UI without the actions that change something")
	root.Version = a.Version
	root.Flags().BoolP("version", "v", false, "print the version")
	flags := root.PersistentFlags()
	flags.StringVar(&a.kubeconfig, "kubeconfig", "",
		"`path` to the kubeconfig file; default $KUBECONFIG, else ~/.kube/config")
	flags.StringVar(&a.context, "context", "", "kubeconfig `context`; default the current one")
	flags.StringVar(&a.cluster, "cluster", "", "kubeconfig `cluster` to use instead of the context's")
	flags.StringVar(&a.requestTimeout, "request-timeout", "",
		"time limit for one request to an API server, a `duration` such as 10s; default 30s")
	flags.StringVar(&a.module, "module", "", "`path` of a PKCS#11 library to use beside the configured ones")
	flags.IntVar(&a.pinFD, "pin-fd", -1,
		"read the PIN from this open file `descriptor` instead of asking; it is tried only once")
	flags.BoolP("help", "h", false, "show this help")

	for _, title := range groups {
		root.AddGroup(&cobra.Group{ID: title, Title: title})
	}
	root.SetHelpCommandGroupID(groupProgram)
	root.SetCompletionCommandGroupID(groupProgram)
	for _, t := range a.trunks() {
		if only == "" || only == t.name {
			c := t.grow()
			c.GroupID = t.group
			root.AddCommand(c)
		}
	}
	for _, c := range everyCommand(root) {
		c.Example = a.examples(c.Example)
		readUsages(c)
	}
	if only == "" { // shells ask the whole tree
		a.complete(root)
	}
	return root
}

// The groups of commands in the help of the root.
const (
	groupStart    = "Start and every day"
	groupTokens   = "Tokens, keys and certificates"
	groupCluster  = "Clusters and requests"
	groupHelpDesk = "Help desk and emergencies"
	groupProgram  = "The program"
)

var groups = []string{groupStart, groupTokens, groupCluster, groupHelpDesk, groupProgram}

type trunk struct {
	name  string
	group string // "" for a help topic
	grow  func() *cobra.Command
}

type verbs struct {
	title string
	grow  []func() *cobra.Command
}

func (a *app) trunks() []trunk {
	grouped := func(name, group, short string, sections ...verbs) trunk {
		return trunk{name, group, func() *cobra.Command { return a.group(name, short, sections...) }}
	}
	group := func(name, group, short string, grow ...func() *cobra.Command) trunk {
		return grouped(name, group, short, verbs{"", grow})
	}
	type grow = []func() *cobra.Command
	return []trunk{
		{"enroll", groupStart, a.enroll},
		{"join", groupStart, a.join},
		{"status", groupStart, a.status},
		{"unlock", groupStart, a.unlock},
		{"doctor", groupStart, a.doctor},
		{"unenroll", groupStart, a.unenroll},
		grouped("token", groupTokens, "Look at and administer hardware tokens",
			verbs{"Look", grow{a.tokenList, a.tokenInfo, a.tokenWait}},
			verbs{"PIN and other secrets", grow{a.tokenPIN, a.tokenPUK, a.tokenManagementKey}},
			verbs{"Set up", grow{a.tokenInit, a.tokenReset}}),
		grouped("key", groupTokens, "Generate, show, move and delete keys on tokens",
			verbs{"Look", grow{a.keyList, a.keyShow, a.keyAttest}},
			verbs{"Change", grow{a.keyGenerate, a.keyDelete}}),
		grouped("certificate", groupTokens, "Show, renew, import, export and delete certificates",
			verbs{"Look", grow{a.certificateShow}},
			verbs{"Change", grow{a.certificateRenew, a.certificateImport}}),
		group("attestation", groupTokens, "Verify attestations of keys", a.attestationVerify),
		grouped("csr", groupCluster, "File, follow and decide certificate requests",
			verbs{"Look", grow{a.csrList, a.csrShow}},
			verbs{"For requesters", grow{a.csrForecast, a.csrCreate, a.csrWait, a.csrResume, a.csrCancel}},
			verbs{"For approvers", grow{a.csrApprove, a.csrDeny}}),
		grouped("kubeconfig", groupCluster, "Show and change kubeconfig entries",
			verbs{"Look", grow{a.kubeconfigList}},
			verbs{"Change", grow{a.kubeconfigUse, a.kubeconfigMigrate, a.kubeconfigSet, a.kubeconfigRefresh, a.kubeconfigRemove,
				a.kubeconfigUndo}}),
		group("consent", groupCluster, "Choose which requests need your consent", a.consentShow, a.consentSet),
		{"audit", groupCluster, a.audit},
		group("helpdesk", groupHelpDesk, "Make tickets for new users, approve their requests, revoke access",
			a.helpdeskTicket, a.helpdeskApprove, a.helpdeskRevoke),
		group("revocation", groupHelpDesk, "List and lift revoked certificates, prove that revocation works",
			a.revocationList, a.revocationLift, a.revocationCheck, a.revocationSet),
		group("breakglass", groupHelpDesk, "Request and approve access in an emergency",
			a.breakglassRequest, a.breakglassApprove, a.breakglassList),
		group("bootstrap-token", groupHelpDesk, "Create, list and delete bootstrap tokens",
			a.bootstrapTokenCreate, a.bootstrapTokenList, a.bootstrapTokenDelete, a.bootstrapTokenGenerate),
		group("rbac", groupHelpDesk, "Print the roles and policies for help desk and break-glass", a.rbacPrint),
		group("roster", groupHelpDesk, "List, import and remove tokens and their owners, make the line to join with",
			a.rosterList, a.rosterImport, a.rosterLine, a.rosterRemove),
		group("agent", groupProgram, "Control the agent that keeps tokens unlocked",
			a.agentStatus, a.agentLock, a.agentStop, a.agentUnit, a.agentServe),
		{"credential", groupProgram, a.credential},
		{"version", groupProgram, a.version},
		{"exit-codes", "", exitCodesTopic},
		{"output", "", outputTopic},
	}
}

// trunkOf returns the first argument if it is a trunk. Otherwise the whole tree is needed, for help
// or suggestions.
func (a *app) trunkOf(args []string) string {
	for _, t := range a.trunks() {
		if len(args) > 0 && (args[0] == t.name || args[0] == enrolAlias && t.name == "enroll") {
			return t.name
		}
	}
	return ""
}

func (a *app) command(c *cobra.Command, run func(c *cobra.Command, args []string) error) *cobra.Command {
	c.Flags().SortFlags = false
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

func (a *app) inEnv(c *cobra.Command, run func(c *cobra.Command, args []string, env *env.Env) error) *cobra.Command {
	return a.command(c, func(c *cobra.Command, args []string) error {
		e, err := a.env()
		if err != nil {
			return err
		}
		return run(c, args, e)
	})
}

func (a *app) group(name, short string, sections ...verbs) *cobra.Command {
	c := &cobra.Command{
		Use: name, Short: short,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknownCommand(c, args[0])
		},
	}
	for _, s := range sections {
		if s.title != "" {
			c.AddGroup(&cobra.Group{ID: s.title, Title: s.title})
		}
		for _, grow := range s.grow {
			verb := grow()
			verb.GroupID = s.title
			c.AddCommand(verb)
			if c.Example == "" {
				c.Example = verb.Example
			}
		}
	}
	return c
}

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

// envReadOnly has the effect of --read-only if it is neither empty nor 0.
const envReadOnly = "KUBEHSM_READ_ONLY"

// tui opens the terminal UI, at the enrollment if nothing is enrolled. On a terminal that cannot
// show it, it prints the commands that do the same; without a terminal it prints the help.
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
		return a.plainCommands()
	case errors.Is(err, hsm.ErrNoTerminal):
		whole := a.root("")
		whole.SetOut(a.Stdout)
		return whole.Help()
	}
	return err
}

// screen runs the terminal UI, and shows a new PUK afterwards that was not kept there.
func (a *app) screen(ctx context.Context, o TUIOptions) error {
	result, err := a.TUI(ctx, o)
	if result == nil {
		return err
	}
	return errors.Join(err, a.showPUK(result))
}

func (a *app) plainCommands() error {
	w, root := a.out(), a.root("")
	w.line("These commands work by plain lines:")
	for _, path := range []string{"status", "enroll", "join", "token list", "kubeconfig list", "csr list", "agent status",
		"helpdesk ticket", "doctor"} {
		c, _, err := root.Find(strings.Fields(path))
		if err != nil {
			return err
		}
		w.line("  %s %-16s %s", a.name(), path, c.Short)
	}
	w.line("`%s help` lists all commands.", a.name())
	return w.flush()
}

func plainTerminal(err error) bool {
	var p interface{ Plain() bool }
	return errors.As(err, &p) && p.Plain()
}
