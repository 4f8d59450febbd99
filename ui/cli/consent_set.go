package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/verb"
)

func (a *app) consentSet() *cobra.Command {
	var policy string
	var rules []string
	var yes bool
	var out *format
	c := a.command(&cobra.Command{
		Use:   "set ENROLLMENT --policy POLICY",
		Short: "Choose which requests need your consent",
		Long: `Sets the consent policy of an enrollment. Its key signs the record of the enrollment
again: where it leads, and the policy. That requires the PIN, typed or given by
--pin-fd, even if the token is unlocked; PIN sources are not used. The command shows
first what is signed. A request needs your consent if the policy of any enrollment
with the same key says so. No kubeconfig can weaken a policy. A running agent records
every change in the audit log, and the next prompt tells you about it.

  session  no request needs consent (default)
  writes   all requests need consent except get, list and watch, dry runs
           and reviews of your own rights; exec, attach, port-forward, proxy
           and impersonation need it too
  always   all requests need consent except discovery
  rules    requests that match one of the --rule flags need consent

A rule is one argument of fields: verbs=, resources= and namespaces=, each a list
with commas, and dry-run to ask for dry runs too. A field that is left out matches
everything. Verbs are those of the API, and write, connect and impersonate.

The question appears on the terminal of the command. If the key needs a touch for
every use, the touch is your consent and signs it. One consent covers further
requests of the same kind by the same process.`,
		Example: `kubehsm consent set prod-hsm --policy writes
kubehsm consent set prod-hsm --policy rules --rule 'verbs=delete' ` +
			`--rule 'verbs=get,list resources=secrets namespaces=payments'`,
		Args: cobra.ExactArgs(1),
	}, func(c *cobra.Command, args []string) error {
		if policy == "" && len(rules) == 0 {
			return ui.Usagef("--policy is missing: session, writes, rules or always")
		}
		p, err := consent.ParsePolicy(policy, rules)
		if err != nil {
			return &ui.UsageError{Err: err}
		}
		env, e, err := a.enrolled(c.Context(), args)
		if err != nil {
			return err
		}
		agent := session.Agent{Env: env}
		now, err := agent.Consent(e.Name)
		if err != nil {
			return err
		}
		if !now.Settled(p) {
			w := a.err()
			for i, line := range present.ConsentLines(now.Policy()) {
				w.prose(6, fmt.Sprintf("%-6s%s", []string{"now:", ""}[min(i, 1)], line))
			}
			for i, line := range present.ConsentLines(p) {
				w.prose(6, fmt.Sprintf("%-6s%s", []string{"then:", ""}[min(i, 1)], line))
			}
			if now.Problem != nil {
				w.prose(0, present.ConsentSigned(now).Words)
			}
			if also := present.ConsentAlso(now); also != "" {
				w.prose(0, also)
			}
			w.line("The key signs:")
			e.Policy, e.Rules = p.Mode, p.Rules
			w.facts(present.SignedFacts(e))
			if err := w.flush(); err != nil {
				return err
			}
			if err := a.confirm(c.Context(), yes, "Set this policy for "+e.Host()+"?"); err != nil {
				return err
			}
			if now, err = agent.SetConsent(c.Context(), e.Name, p, a.prompter()); err != nil {
				return err
			}
		}
		return a.emitConsent(out, now)
	})
	f := c.Flags()
	verb.Bind(f, present.ConsentOptions(&policy, &rules)...)
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	out = output(c)
	return c
}
