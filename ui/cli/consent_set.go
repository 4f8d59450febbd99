package cli

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/ui"
)

func (a *app) consentSet() *cobra.Command {
	var policy string
	var rules []string
	var yes bool
	var out *format
	c := a.command(&cobra.Command{
		Use:   "set ENROLMENT --policy POLICY",
		Short: "Say which requests need your yes",
		Long: `Sets the consent policy of an enrolment. No kubeconfig can weaken it.

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
			rule, err := parseRule(r)
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
		if !sameConsent(e.Consent(), p) {
			w := a.err()
			w.line("%s leads to %s.", e.Name, e.Host())
			w.line("now:  %s", consentWords[modeOf(e.Consent())])
			w.line("then: %s", consentWords[p.Mode])
			for _, r := range p.Rules {
				w.line("        %s", ruleWords(r))
			}
			if err := w.flush(); err != nil {
				return err
			}
			if err := a.confirm(c.Context(), yes, "Set this policy for "+e.Host()+"?"); err != nil {
				return err
			}
			if e, err = env.SetConsent(c.Context(), e.Name, p); err != nil {
				return err
			}
		}
		return a.emitConsent(out, e)
	})
	f := c.Flags()
	f.StringVar(&policy, "policy", "", "session, writes, rules or always")
	f.StringArrayVar(&rules, "rule", nil, "a `rule` of the policy rules; may be given several times")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	out = output(c)
	return c
}

func modeOf(p consent.Policy) consent.Mode {
	if p.Mode == "" {
		return consent.Session
	}
	return p.Mode
}

func sameConsent(a, b consent.Policy) bool {
	return modeOf(a) == modeOf(b) && len(a.Rules) == len(b.Rules) && (len(a.Rules) == 0 || reflect.DeepEqual(a.Rules, b.Rules))
}

// parseRule reads "verbs=delete resources=secrets,pods/exec namespaces=prod dry-run".
func parseRule(s string) (consent.Rule, error) {
	var r consent.Rule
	fields := strings.Fields(s)
	if len(fields) == 0 {
		return r, fmt.Errorf("it is empty; verbs=* matches everything")
	}
	for _, field := range fields {
		if field == "dry-run" {
			r.DryRun = true
			continue
		}
		key, list, ok := strings.Cut(field, "=")
		to := map[string]*[]string{"verbs": &r.Verbs, "resources": &r.Resources, "namespaces": &r.Namespaces}[key]
		if !ok || to == nil || list == "" {
			return r, fmt.Errorf("%q is none of verbs=, resources=, namespaces=, dry-run", field)
		}
		*to = append(*to, strings.Split(list, ",")...)
	}
	return r, nil
}
