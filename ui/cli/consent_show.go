package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) consentShow() *cobra.Command {
	var out *format
	c := a.command(&cobra.Command{
		Use:     "show [ENROLLMENT]",
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
		w.line("%s (%s): %s", e.Name, e.Host(), present.ConsentWords(p.Mode))
		for _, r := range p.Rules {
			w.line("  %s", r.String())
		}
	})
}
