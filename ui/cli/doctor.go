package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/doctor"
)

// errUnhealthy is doctor's answer to scripts.
var errUnhealthy = errors.New("something is in the way of signing in: see above")

func (a *app) doctor() *cobra.Command {
	var offline bool
	var bundle, unlock string
	var o *format
	c := a.command(&cobra.Command{
		Use:   "doctor",
		Short: "Look at tokens, kubectl, kubeconfig, agent and clusters, and say what to do",
		Long: `Looks at everything between you, your token, kubectl and the clusters: readers
and libraries, PIN states, kubectl and the PATH, kubeconfig files and their locks,
the agent, certificates, API servers and clocks. It changes nothing and asks for
no PIN, unless --unlock names a token: then it looks at the private keys on it too.
It exits with 1 if something is in the way of signing in.

With --bundle it writes a report to send to somebody who helps. Names are replaced
in it; it never holds a PIN, key, certificate or kubeconfig.`,
		Example: "kubehsm doctor\nkubehsm doctor --offline -o json\n" +
			"kubehsm doctor --unlock pkcs11:token=trial\nkubehsm doctor --bundle report.zip",
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		env, err := a.env()
		if err != nil {
			return err
		}
		options := doctor.Options{Env: env, Getenv: a.Getenv, Online: !offline}
		if unlock != "" {
			u, err := hsm.ParseURI(unlock)
			if err != nil {
				return err
			}
			switch v, err := doctor.Unlock(c.Context(), env, u, a.prompter()); {
			case err == nil:
				options.Unlocked = &v
			case c.Context().Err() == nil && doctor.IsFinding(err):
				options.Refused = &doctor.Refused{Token: u, Err: err, Info: v.Info}
			default:
				return fmt.Errorf("--unlock: %w", err)
			}
		}
		var checks []doctor.Check
		if bundle == "" {
			checks = doctor.Run(c.Context(), options, nil)
		} else if checks, err = doctor.WriteBundle(c.Context(), bundle, options); err != nil {
			return fmt.Errorf("--bundle: %w", err)
		}
		if err := c.Context().Err(); err != nil {
			return err
		}
		ready, summary := doctor.Summary(checks)
		doc := struct {
			Ready  bool           `json:"ready"`
			State  doctor.State   `json:"state"`
			Checks []doctor.Check `json:"checks"`
			Bundle string         `json:"bundle,omitempty"`
		}{ready, doctor.Worst(checks), checks, bundle}
		if err := a.emit(o, doc, func(w *words) {
			checkWords(w, checks)
			w.line("")
			w.line("%s", summary.Words)
			if bundle != "" {
				w.line("")
				w.line("Wrote %s. Look into it before you send it.", bundle)
			}
		}); err != nil {
			return err
		}
		if doc.State == doctor.Failed {
			return errUnhealthy
		}
		return nil
	})
	c.Flags().BoolVar(&offline, "offline", false, "contact no API server")
	c.Flags().StringVar(&bundle, "bundle", "", "write a report without names to this new zip `file`")
	c.Flags().StringVar(&unlock, "unlock", "", "`URI` of a token to unlock and search for leftovers")
	o = output(c)
	return c
}

// stateWidth is that of the longest state.
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
		w.prose(stateWidth+4, fmt.Sprintf("  %-*s  %s: %s", stateWidth, c.State, c.Title, c.Found))
		for _, l := range c.Advice() {
			l = fmt.Sprintf("  %*s  %s", stateWidth, "", l)
			if strings.Contains(l, ": kubehsm ") || strings.Contains(l, ": sudo "+
				"") { // commands stay on one line for copying
				w.line("%s", l)
			} else {
				w.prose(stateWidth+4, l)
			}
		}
	}
}
