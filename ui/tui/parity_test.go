package tui_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/cli"
	"github.com/kubehsm/kubehsm/ui/tui"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
)

// shown are the commands whose answer a screen is, without a key.
var shown = map[string]screen.ID{
	"status":     screen.Home,
	"token list": screen.Tokens, "token wait": screen.Tokens, "key list": screen.Tokens,
	"kubeconfig list": screen.Contexts,
	"csr list":        screen.Requests, "csr wait": screen.Requests,
	"agent status": screen.Activity, "audit": screen.Activity,
	"bootstrap-token list": screen.HelpDesk, "breakglass list": screen.HelpDesk,
	"csr forecast": screen.Enroll, // part of the review
}

// without are the commands that have no place on a screen, and why.
var without = map[string]string{
	"agent serve":              "the agent itself: it is started when it is needed",
	"bootstrap-token generate": "makes up a token for a script; new token makes one and tells the cluster",
	"certificate import":       "an admin who filed the request sends a file, which is rare",
	"completion bash":          "for a shell",
	"completion fish":          "for a shell",
	"completion powershell":    "for a shell",
	"completion zsh":           "for a shell",
	"credential":               "kubectl runs it",
	"exit-codes":               "for scripts",
	"help":                     "the screens have their own",
	"output":                   "for scripts",
	"rbac print":               "an admin's, once for each cluster",
	"roster import":            "an admin's, from a file",
	"roster line":              "an admin's, once for each cluster",
	"roster list":              "`kubectl get hardwaretokens -n kubehsm` lists them too",
	"roster remove":            "an admin's",
	"version":                  "the doctor says it",
}

// verbs are the commands that do something, without the program's name.
func verbs(c *cobra.Command) []string {
	if len(c.Commands()) == 0 {
		_, words, _ := strings.Cut(c.CommandPath(), " ")
		return []string{words}
	}
	var all []string
	for _, sub := range c.Commands() {
		all = append(all, verbs(sub)...)
	}
	return all
}

// TestNoCapabilityInOneOnly: what a command does, a key on a screen does as well.
// A new command wants an action with its name as Verb, or a line above that says
// why there is none.
func TestNoCapabilityInOneOnly(t *testing.T) {
	root := (&cli.Program{Args: []string{"kubehsm"}, Getenv: func(string) string { return "" }}).Command()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	all := verbs(root)

	by := map[string]string{} // the screen
	screens := map[screen.ID]bool{screen.Enroll: true}
	for verb, at := range shown {
		by[verb] = string(at)
	}
	for name, to := range places() {
		w := newWorld(t)
		w.ours()
		r := w.open(100, 30)
		to(r)
		actor, ok := tui.Top(r.Model()).(screen.Actor)
		if !ok {
			t.Fatalf("%s tells of no acts", name)
		}
		screens[tui.Top(r.Model()).ID()] = true
		for _, a := range actor.Acts() {
			if a.Do == nil || len(a.Key.Keys()) == 0 || a.Key.Help().Desc == "" {
				t.Errorf("%s: %v does nothing, or has no key or name", name, a)
			}
			for _, verb := range a.Verbs() {
				by[verb] = name
			}
		}
	}
	for _, verb := range all {
		_, excused := without[verb]
		switch at := by[verb]; {
		case at == "" && !excused:
			t.Errorf("kubehsm %s: no screen does that", verb)
		case at != "" && excused:
			t.Errorf("kubehsm %s: it is on the screen %s", verb, at)
		}
	}
	for verb, at := range by {
		if !slices.Contains(all, verb) {
			t.Errorf("%s: there is no command %q", at, verb)
		}
	}
	for verb := range without {
		if !slices.Contains(all, verb) {
			t.Errorf("there is no command %q any more", verb)
		}
	}
	for verb, at := range shown {
		if !screens[at] {
			t.Errorf("%s: there is no screen %s", verb, at)
		}
	}
}
