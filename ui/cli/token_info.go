package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow"
	"github.com/kubehsm/kubehsm/ui/present"
)

// detailsDoc is a token with all that it tells, in JSON and YAML.
type detailsDoc struct {
	tokenDoc
	Details *hsm.Details `json:"details,omitempty"`
}

func detailsDocOf(d flow.TokenDetails) detailsDoc {
	doc := detailsDoc{tokenDoc: tokenDoc{URI: d.Info.URI(), TokenInfo: d.Info}, Details: d.Details}
	for _, s := range d.Slots {
		doc.Slots = append(doc.Slots, slotDocOf(s))
	}
	return doc
}

func slotDocOf(s hsm.Slot) slotDoc {
	d := slotDoc{URI: s.URI, ID: s.ID, Label: s.Label, Key: s.Key, Problem: s.Problem}
	if s.Certificate != nil {
		c := certificateDocOf(s.Certificate)
		c.PEM = ""
		d.Certificate = &c
	}
	return d
}

func (a *app) tokenInfo() *cobra.Command {
	var o *format
	var token string
	var all bool
	c := a.command(&cobra.Command{
		Use:     "info",
		Aliases: []string{"show"},
		Short:   "Show all that a token tells without a PIN: tries left, keys, default values",
		Example: `kubehsm token info
kubehsm token info --token 'piv:serial=12345678' --all
kubehsm token info -o json`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		env, u, err := a.tokenEnv(c.Context(), token)
		if err != nil {
			return err
		}
		d, err := env.Token(c.Context(), u)
		if err != nil {
			return err
		}
		if err := a.factoryNotes(d); err != nil {
			return err
		}
		return a.emit(o, detailsDocOf(d), func(w *words) {
			tokenWords(w, d)
			slotTable(w, d.Slots, all)
		})
	})
	c.Flags().BoolVar(&all, "all", false, "show the empty slots of a PIV card too")
	tokenFlag(c, &token)
	o = output(c)
	return c
}

// tokenFlag adds --token.
func tokenFlag(c *cobra.Command, token *string) {
	c.Flags().StringVar(token, "token", "", "`URI` of the token, as `kubehsm token list` shows it; default the only one there is")
}

func tokenWords(w *words, d flow.TokenDetails) {
	t := d.Info
	puk, key, form, attests, module := "", "", "", "", ""
	if m := t.Module; m != nil {
		module = m.Path
	}
	if more := d.Details; more != nil {
		puk, key, form = present.TriesWords(more.PUK), present.ManagementKeyWords(more.ManagementKey), more.FormFactor
		if more.FIPS {
			form = strings.TrimPrefix(form+", FIPS", ", ")
		}
		attests = "no"
		if more.Attests {
			attests = "the card can attest its keys"
		}
	}
	uri := t.URI()
	uri.ModulePath = ""
	w.fields("Token", t.Name(), "Model", t.Model, "Maker", t.Manufacturer, "Serial", t.Serial, "Firmware", t.Firmware,
		"Form", form, "Reader", t.Reader, "Module", module, "URI", uri.String(),
		"PIN", present.PINWords(t, d.Details), "PUK", puk, "Management key", key, "Attestation", attests)
}

func slotTable(w *words, slots []hsm.Slot, all bool) {
	rows := [][]string{}
	for _, s := range slots {
		empty := s.Key == nil && s.Certificate == nil
		if empty && !all {
			continue
		}
		key, cert := slotWords(s)
		origin, pin, touch := "", "", ""
		if k := s.Key; k != nil {
			origin, pin, touch = string(k.Origin), told(k.PIN, hsm.PINDefault), told(k.Touch, hsm.TouchDefault)
		}
		rows = append(rows, []string{s.ID, s.Label, key, origin, pin, touch, cert, s.Problem})
	}
	if len(rows) > 0 {
		w.line("")
		w.table([]string{"ID", "LABEL", "KEY", "ORIGIN", "PIN", "TOUCH", "CERTIFICATE", "PROBLEM"}, rows)
	}
}

// factoryNotes warns of values that everybody knows.
func (a *app) factoryNotes(d flow.TokenDetails) error {
	w := a.err()
	if d.Info.PIN.Default || d.Details != nil && d.Details.PIN != nil && d.Details.PIN.Default {
		w.line("note: the default PIN is in force; `kubehsm token pin change` sets your own")
	}
	if m := d.Details; m != nil {
		if m.PUK != nil && m.PUK.Default {
			w.line("note: the default PUK is in force; `kubehsm token puk change` sets your own")
		}
		if m.ManagementKey.Default {
			w.line("note: the default management key is in force; `kubehsm token management-key set --protect` replaces it")
		}
	}
	return w.flush()
}
