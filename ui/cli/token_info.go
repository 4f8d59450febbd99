package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
)

type detailsDoc struct {
	tokenDoc
	Details *hsm.Details `json:"details,omitempty"`
}

func detailsDocOf(d token.Details) detailsDoc {
	doc := detailsDoc{tokenDoc: tokenDoc{URI: d.Info.URI(), TokenInfo: d.Info}, Details: d.Details}
	for _, s := range d.Slots {
		doc.Slots = append(doc.Slots, slotDocOf(s))
	}
	return doc
}

func slotDocOf(s hsm.Slot) slotDoc {
	d := slotDoc{URI: s.URI, ID: s.ID, Label: s.Label, Key: s.Key, Problem: s.Problem, Older: len(s.Older),
		Half: s.Half}
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
		Short:   "Show what a token tells without a PIN: tries left, keys, defaults",
		Example: `kubehsm token info
kubehsm token info --token 'piv:serial=12345678' --all
kubehsm token info -o json`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		tokens, u, err := a.oneToken(c.Context(), token)
		if err != nil {
			return err
		}
		d, err := tokens.Details(c.Context(), u)
		if err != nil {
			return err
		}
		if err := a.defaultNotes(d); err != nil {
			return err
		}
		return a.emit(o, detailsDocOf(d), func(w *words) {
			tokenWords(w, d)
			slotTable(w, d.Slots, all)
		})
	})
	c.Flags().BoolVar(&all, "all", false, "show empty slots of a PIV card too")
	tokenFlag(c, &token)
	o = output(c)
	return c
}

func tokenFlag(c *cobra.Command, token *string) {
	c.Flags().StringVar(token, "token", "",
		"`URI` of the token, see \"kubehsm token list\"; default the only one present")
}

func tokenWords(w *words, d token.Details) {
	w.facts(tokenFacts(d.Info, present.TokenFacts(d.Info, d.Details)))
}

func tokenFacts(t hsm.TokenInfo, facts []present.Fact) []present.Fact {
	return append([]present.Fact{{Name: "Token", Value: present.Token(t)}}, facts...)
}

func slotTable(w *words, slots []hsm.Slot, all bool) {
	now := time.Now()
	rows := [][]string{}
	for _, s := range slots {
		r := present.RowOf(s, now)
		if r.Empty && !all {
			continue
		}
		rows = append(rows, []string{r.ID, r.Label, marked(r.Key.Value, r.Key.Level), r.Origin, r.PIN, r.Touch,
			marked(r.Certificate.Value, r.Certificate.Level), marked(r.Expires.Value, r.Expires.Level),
			marked(r.Problem, present.Warn)})
	}
	if len(rows) > 0 {
		w.line("")
		w.table([]string{"SLOT", "LABEL", "KEY", "ORIGIN", "PIN", "TOUCH", "CERTIFICATE", "EXPIRES", "PROBLEM"}, rows)
	}
}

func (a *app) defaultNotes(d token.Details) error {
	w := a.err()
	for _, n := range present.NotedIn(present.Secrets(d.Info, d.Details)) {
		w.line("note: %s", n)
	}
	return w.flush()
}
