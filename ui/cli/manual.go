package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
)

// Command is the whole tree of commands, for what describes them: manual pages
// and completions. It is not to be run.
func (p *Program) Command() *cobra.Command {
	a := &app{Program: p, pinFD: -1}
	return a.root("")
}

// Entry is a name in a manual page, and what it means.
type Entry struct{ Name, Text string }

// ExitCodes are the exit codes of a command.
func ExitCodes(c *cobra.Command) []Entry {
	all := exitCodes()
	if alone(c) {
		return all[:3]
	}
	if why := failures[withoutRoot(c)]; why != "" {
		all[1].Text += ", or " + why
	}
	return all
}

func exitCodes() []Entry {
	return []Entry{
		{strconv.Itoa(ui.ExitOK), "success"},
		{strconv.Itoa(ui.ExitFailed), "failure"},
		{strconv.Itoa(ui.ExitUsage), "wrong command line"},
		{strconv.Itoa(ui.ExitNoToken), "the token is not there"},
		{strconv.Itoa(ui.ExitPIN), "the PIN is wrong, blocked or not set"},
		{strconv.Itoa(ui.ExitNoTerminal), "no terminal to ask a person on"},
		{strconv.Itoa(ui.ExitTimedOut), "the time limit was reached"},
		{strconv.Itoa(ui.ExitInterrupted), "interrupted, or a question was declined"},
		{"143", "ended by SIGTERM while a token's library was hanging"},
	}
}

var failures = map[string]string{
	"doctor":             "something prevents signing in",
	"attestation verify": "an attestation is not verified",
	"key attest":         "the attestation is not verified",
	"csr create":         "the request is certain to be refused",
}

// Environment are the environment variables that a command reads.
func Environment(c *cobra.Command) []Entry {
	if alone(c) {
		return nil
	}
	all := []Entry{
		{"KUBECONFIG", "The kubeconfig files, as for kubectl."},
		{"KUBEHSM_HOME", "An absolute path. The folder holds everything of kubehsm: config.yaml, state, run."},
		{"XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_RUNTIME_DIR",
			"The folders that hold the folders of kubehsm, without KUBEHSM_HOME."},
		{"NO_COLOR", "No colors."},
	}
	switch withoutRoot(c) {
	case "":
		all = append(all,
			Entry{"KUBEHSM_ACCESSIBLE", "With 1, the names of commands that work by plain lines instead of the terminal UI. TERM=dumb does the same."},
			Entry{envReadOnly, "With 1, the same as --read-only."},
			Entry{"KUBEHSM_MOUSE", "With 0, the terminal UI leaves the mouse to the terminal, which then selects text."})
	case "credential":
		all = append(all, Entry{"KUBERNETES_EXEC_INFO", "The ExecCredential from the client. It names the cluster."})
	}
	return all
}

// Files are the files and folders that a command uses.
func Files(c *cobra.Command) []Entry {
	if alone(c) {
		return nil
	}
	return []Entry{
		{"~/.kube/config", "The kubeconfig, without --kubeconfig and KUBECONFIG."},
		{"~/.config/kubehsm/config.yaml", "The configuration: PKCS#11 libraries, PIN sources, time limits."},
		{"~/.local/state/kubehsm", "Enrollments, their certificates, the identity of the bridge, logs."},
		{"$XDG_RUNTIME_DIR/kubehsm", "The socket of the agent."},
	}
}

func withoutRoot(c *cobra.Command) string {
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	return path
}

// alone reports whether a command uses no token, cluster or file of kubehsm.
func alone(c *cobra.Command) bool {
	path := withoutRoot(c)
	return slices.Contains([]string{"version", "rbac print", "bootstrap-token generate"}, path) ||
		strings.HasPrefix(path, "completion")
}
