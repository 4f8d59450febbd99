package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

func (a *app) consentShow() *cobra.Command {
	var out *format
	c := a.command(&cobra.Command{
		Use:     "show [ENROLMENT]",
		Short:   "Show which requests need your yes",
		Example: "kubehsm consent show\nkubehsm consent show prod-hsm -o json",
		Args:    cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		e, err := a.enrollment(c.Context(), name)
		if err != nil {
			return err
		}
		return a.emitConsent(out, e)
	})
	out = output(c)
	return c
}

func (a *app) emitConsent(out *format, e enrollment.Enrollment) error {
	p := e.Consent()
	if p.Mode == "" {
		p.Mode = consent.Session
	}
	doc := struct {
		Enrollment string         `json:"enrollment"`
		Server     string         `json:"server"`
		Policy     consent.Mode   `json:"policy"`
		Rules      []consent.Rule `json:"rules,omitempty"`
	}{e.Name, e.Cluster.Server, p.Mode, p.Rules}
	return a.emit(out, doc, func(w *words) {
		w.line("%s (%s): %s", e.Name, e.Host(), consentWords[p.Mode])
		for _, r := range p.Rules {
			w.line("  %s", ruleWords(r))
		}
	})
}

// consentWords say what a policy does.
var consentWords = map[consent.Mode]string{
	consent.Session: "session: signing in is enough",
	consent.Writes:  "writes: all but reading needs your yes, and so do exec, attach, port-forward, proxy and impersonation",
	consent.Always:  "always: every command needs your yes",
	consent.Rules:   "rules: what one of these matches needs your yes",
}

// ruleWords writes a rule as --rule takes it.
func ruleWords(r consent.Rule) string {
	var fields []string
	for _, f := range []struct {
		key    string
		values []string
	}{{"verbs", r.Verbs}, {"resources", r.Resources}, {"namespaces", r.Namespaces}} {
		if len(f.values) > 0 {
			fields = append(fields, f.key+"="+strings.Join(f.values, ","))
		}
	}
	if r.DryRun {
		fields = append(fields, "dry-run")
	}
	if len(fields) == 0 {
		return "verbs=*"
	}
	return strings.Join(fields, " ")
}
