package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) consentSet() *cobra.Command {
	var policy string
	var rules []string
	var yes bool
	var out *format
	c := a.command(&cobra.Command{
		Use:   "set ENROLLMENT --policy POLICY",
		Short: "Say which requests need your yes",
		Long: `Sets the consent policy of an enrollment's key, and so of all enrollments of that
key. The key signs each version, which requires the token's PIN, unless the agent holds
it unlocked, and a touch where the key wants one. No kubeconfig can weaken it. For a policy that is less strict
than the current one the PIN must be typed: --pin-fd and PIN sources do not count.
The audit log records every change, and the next prompt tells you about it.

session  signing in is enough (the default)
writes   all but get, list and watch needs your yes; exec, attach, port-forward,
         proxy and impersonation do too. Dry runs and reviews of your own rights
         do not
always   everything but discovery needs it
rules    what one of the --rule flags matches needs it

A rule is one argument of fields: verbs=, resources=, namespaces= (each a list
with commas; what is left out matches all) and dry-run (ask for dry runs too).
Verbs are the API's, and write, connect and impersonate.

You are asked on the terminal of the command, by a question or, where the key
wants a touch for every use, by a touch that signs what you agreed to. One yes
covers the further requests of its kind by the same process.`,
		Example: `kubehsm consent set prod-hsm --policy writes
kubehsm consent set prod-hsm --policy rules --rule 'verbs=delete' --rule 'verbs=get,list resources=secrets namespaces=payments'`,
		Args: cobra.ExactArgs(1),
	}, func(c *cobra.Command, args []string) error {
		if policy == "" && len(rules) > 0 {
			policy = string(consent.Rules)
		}
		if policy == "" {
			return ui.Usagef("--policy is missing: session, writes, rules or always")
		}
		p := consent.Policy{Mode: consent.Mode(policy)}
		for _, r := range rules {
			rule, err := consent.ParseRule(r)
			if err != nil {
				return &ui.UsageError{Err: fmt.Errorf("--rule %q: %w", r, err)}
			}
			p.Rules = append(p.Rules, rule)
		}
		if err := p.Validate(); err != nil {
			return &ui.UsageError{Err: err}
		}
		e, err := a.enrollment(c.Context(), args[0])
		if err != nil {
			return err
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		agent := session.Agent{Env: env}
		now, err := agent.Consent(c.Context(), e.Name)
		if err != nil {
			return err
		}
		if !now.Settled(p) {
			w := a.err()
			w.line("%s leads to %s.", e.Name, e.Host())
			if same := present.ConsentSameKey(now); same != "" {
				w.prose(0, same)
			}
			for i, line := range present.ConsentLines(now.Policy) {
				w.prose(6, fmt.Sprintf("%-6s%s", []string{"now:", ""}[min(i, 1)], line))
			}
			for i, line := range present.ConsentLines(p) {
				w.prose(6, fmt.Sprintf("%-6s%s", []string{"then:", ""}[min(i, 1)], line))
			}
			if a.pinFD >= 0 && !p.Covers(now.Policy) {
				w.prose(0, "note: --pin-fd does not count here: a less strict policy requires a PIN that is typed.")
			}
			if err := w.flush(); err != nil {
				return err
			}
			if err := a.confirm(c.Context(), yes, "Set this policy for "+present.ConsentAbout(now)+"?"); err != nil {
				return err
			}
			if now, err = agent.SetConsent(c.Context(), e.Name, p, a.prompter()); err != nil {
				return err
			}
		}
		return a.emitConsent(out, now)
	})
	f := c.Flags()
	f.StringVar(&policy, "policy", "", "consent `policy`: session, writes, rules or always")
	f.StringArrayVar(&rules, "rule", nil, "`rule` for the policy rules; may be repeated")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	out = output(c)
	return c
}
