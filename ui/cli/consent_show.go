package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/audit"
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
		now, err := session.Agent{Env: env}.Consent(c.Context(), e.Name)
		if err != nil {
			return err
		}
		return a.emitConsent(out, now)
	})
	out = output(c)
	return c
}

// policyDoc is a consent policy in a document.
type policyDoc struct {
	Policy consent.Mode   `json:"policy"`
	Rules  []consent.Rule `json:"rules,omitempty"`
}

func (a *app) emitConsent(out *format, c session.Consent) error {
	e := c.Enrollment
	doc := struct {
		Enrollment string `json:"enrollment"`
		Server     string `json:"server"`
		policyDoc
		// Also are policies that apply beside that.
		Also []policyDoc `json:"also,omitempty"`
		// Signed: the key has signed the policy; Number is that of the version.
		Signed  bool          `json:"signed"`
		Number  uint64        `json:"number,omitempty"`
		Problem audit.Problem `json:"problem,omitempty"`
		SameKey []string      `json:"sameKey,omitempty"`
	}{Enrollment: e.Name, Server: e.Cluster.Server, Signed: c.Signed(), Number: c.Standing.Version.Number,
		Problem: c.Standing.Problem}
	for _, other := range c.SameKey() {
		doc.SameKey = append(doc.SameKey, other.Name)
	}
	for i, p := range c.Policy.Parts() {
		if p.Mode == "" {
			p.Mode = consent.Session
		}
		if i == 0 {
			doc.policyDoc = policyDoc{p.Mode, p.Rules}
		} else {
			doc.Also = append(doc.Also, policyDoc{p.Mode, p.Rules})
		}
	}
	return a.emit(out, doc, func(w *words) {
		lines := present.ConsentLines(c.Policy)
		w.prose(0, fmt.Sprintf("%s (%s): %s", e.Name, e.Host(), lines[0]))
		for _, line := range lines[1:] {
			w.prose(4, line)
		}
		if signed := present.ConsentSigned(c); signed.Words != "" {
			w.prose(0, signed.Words)
			if signed.Level != present.Good {
				w.line("To sign it: `%s`", present.ConsentCommand(c))
			}
		}
		if same := present.ConsentSameKey(c); same != "" {
			w.prose(0, same)
		}
	})
}
