package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/doctor"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

var errUnhealthy = errors.New("a problem prevents signing in: see above")

func (a *app) doctor() *cobra.Command {
	var offline, all bool
	var o *format
	c := a.inEnv(&cobra.Command{
		Use:   "doctor",
		Short: "Find problems with tokens, kubectl, kubeconfig and clusters",
		Long: `Checks everything between you, your token, kubectl and the clusters: readers and
libraries, PINs, kubectl and the PATH, kubeconfig files and their locks, the agent,
certificates, API servers and clocks; and, where nobody has to be asked for that, a
sign-in by the current context and the policies with revoked certificates. It changes
nothing and asks for no PIN. The exit code is 1 if something prevents signing in.`,
		Example: "kubehsm doctor\nkubehsm doctor --offline -o json",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string, env *env.Env) error {
		options := doctor.Options{Env: env, Getenv: a.Getenv, Online: !offline}
		checks := doctor.Run(c.Context(), options, nil)
		if err := c.Context().Err(); err != nil {
			return err
		}
		ready, summary := doctor.Summary(checks)
		doc := struct {
			Ready  bool           `json:"ready"`
			State  doctor.State   `json:"state"`
			Checks []doctor.Check `json:"checks"`
		}{ready, doctor.Worst(checks), checks}
		if err := a.emit(o, doc, func(w *words) {
			if all {
				checkWords(w, checks)
			} else {
				problemWords(w, checks)
			}
			w.line("")
			w.line("%s", summary.Words)
		}); err != nil {
			return err
		}
		if doc.State == doctor.Failed {
			return errUnhealthy
		}
		return nil
	})
	c.Flags().BoolVar(&offline, "offline", false, "contact no API server")
	c.Flags().BoolVar(&all, "all", false, "list the checks that passed, too")
	o = output(c)
	return c
}

const stateWidth = len(doctor.Unknown)

func checkWords(w *words, checks []doctor.Check) {
	group := ""
	for _, c := range checks {
		if c.Group != group {
			if group != "" {
				w.line("")
			}
			group = c.Group
			w.line("%s", group)
		}
		checkLines(w, c)
	}
}

// maxAlike is how many problems of one kind are listed.
const maxAlike = 3

func problemWords(w *words, checks []doctor.Check) {
	problems, passed := doctor.Problems(checks)
	alike := func(c doctor.Check) string {
		kind, _, _ := strings.Cut(c.ID, "/")
		return strings.Join([]string{kind, string(c.State), c.Why}, "\x00")
	}
	left := map[string]int{}
	for _, c := range problems {
		left[alike(c)]++
	}
	told := map[string]int{}
	for _, c := range problems {
		k := alike(c)
		switch told[k]++; {
		case told[k] <= maxAlike:
			checkLines(w, c)
		case told[k] == maxAlike+1:
			w.line("  %*s  and %d more of this kind (--all)", stateWidth, "", left[k]-maxAlike)
		}
	}
	if len(problems) > 0 {
		w.line("")
	}
	if passed > 0 {
		w.line("%s; --all lists them", doctor.Passed(passed))
	}
}

func checkLines(w *words, c doctor.Check) {
	w.prose(stateWidth+4, fmt.Sprintf("  %-*s  %s: %s", stateWidth, c.State, c.Title, c.Found))
	for _, l := range c.Advice() {
		l = fmt.Sprintf("  %*s  %s", stateWidth, "", l)
		if strings.Contains(l, ": kubehsm ") || strings.Contains(l, ": sudo ") { // commands stay on one line for copying
			w.line("%s", l)
		} else {
			w.prose(stateWidth+4, l)
		}
	}
}
