package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) consentShow() *cobra.Command {
	var out *format
	c := a.command(&cobra.Command{
		Use:     "show [ENROLLMENT]",
		Short:   "Show which requests need your consent",
		Example: "kubehsm consent show\nkubehsm consent show prod-hsm -o json",
		Args:    cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		env, e, err := a.enrolled(c.Context(), args)
		if err != nil {
			return err
		}
		now, err := session.Agent{Env: env}.Consent(e.Name)
		if err != nil {
			return err
		}
		return a.emitConsent(out, now)
	})
	out = output(c)
	return c
}

func (a *app) emitConsent(out *format, c session.Consent) error {
	e, p := c.Enrollment, c.Policy()
	doc := struct {
		Enrollment string         `json:"enrollment"`
		Server     string         `json:"server"`
		Policy     consent.Mode   `json:"policy"`
		Rules      []consent.Rule `json:"rules,omitempty"`
		// Signed: the key has signed the record, as the version Number.
		Signed  bool   `json:"signed"`
		Number  uint64 `json:"number,omitempty"`
		Problem string `json:"problem,omitempty"`
		// Also are enrollments whose policies apply too.
		Also []string `json:"also,omitempty"`
	}{Enrollment: e.Name, Server: e.Cluster.Server, Policy: cmp.Or(p.Mode, consent.Session), Rules: p.Rules,
		Signed: c.Problem == nil}
	if doc.Signed {
		doc.Number = c.Version.Number
	} else {
		doc.Problem = c.Problem.Error()
	}
	for _, other := range c.Also {
		doc.Also = append(doc.Also, other.Name)
	}
	return a.emit(out, doc, func(w *words) {
		lines := present.ConsentLines(p)
		w.prose(0, fmt.Sprintf("%s (%s): %s", e.Name, e.Host(), lines[0]))
		for _, line := range lines[1:] {
			w.prose(4, line)
		}
		w.prose(0, present.ConsentSigned(c).Words)
		if c.Problem != nil {
			w.facts(present.SignedFacts(e))
			w.line("To sign it with this policy: `%s`", present.ConsentCommand(c))
		}
		if also := present.ConsentAlso(c); also != "" {
			w.prose(0, also)
		}
	})
}
