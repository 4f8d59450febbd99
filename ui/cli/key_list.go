package cli

import (
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) keyList() *cobra.Command {
	var o *format
	var token string
	c := a.command(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the keys on the tokens",
		Long: `Lists the keys on the tokens, and halves of keys that interrupted commands left, as far
as the tokens show them without a PIN. "kubehsm key delete" deletes a half.`,
		Example: `kubehsm key list
kubehsm key list --token 'pkcs11:token=trial' -o yaml`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		var only hsm.URI
		if token != "" {
			var err error
			if only, err = hsm.ParseURI(token); err != nil {
				return err
			}
		}
		show := func(tokens []hsm.View) error { return a.keyTable(tokens, only) }
		if o.value != "" { // a document comes whole
			show = nil
		}
		v, err := a.views(c.Context(), show)
		if err != nil {
			return err
		}
		v.tokens = slices.DeleteFunc(v.tokens, func(t hsm.View) bool { return only.Scheme != "" && !only.MatchToken(t.Info) })
		doc := struct {
			Keys     []keyDoc     `json:"keys"`
			Problems []problemDoc `json:"problems,omitempty"`
		}{Keys: []keyDoc{}, Problems: problemDocs(v.problems)}
		notes := a.err()
		for _, t := range v.tokens {
			if t.Err != nil {
				notes.line("note: %s: %s", t.Info.Name(), ui.Message(t.Err))
				doc.Problems = append(doc.Problems, problemDocs([]hsm.Problem{{Source: t.Info.URI().String(), Err: t.Err}})...)
			}
			for _, s := range t.Slots {
				if !listed(s) {
					continue
				}
				d, err := keyDocOf(s)
				if err != nil {
					return err
				}
				doc.Keys = append(doc.Keys, d)
			}
		}
		notes.problems(v.problems, len(v.tokens) > 0)
		if only.Scheme != "" && len(v.tokens) == 0 {
			return errors.Join(notes.flush(), hint.With(hsm.ErrNoToken, "`kubehsm token list` shows what is there"))
		}
		failed := v.unread(len(doc.Keys) > 0)
		if len(doc.Keys) == 0 && failed == nil {
			notes.line("No keys found.")
		}
		if err := notes.flush(); err != nil {
			return err
		}
		if o.value == "" {
			err = a.keyTable(v.late(), only)
		} else {
			err = a.emit(o, doc, nil)
		}
		if err == nil {
			err = failed
		}
		return err
	})
	c.Flags().StringVar(&token, "token", "", "`URI` of a token, to show only its keys")
	o = output(c)
	return c
}

func (a *app) keyTable(tokens []hsm.View, only hsm.URI) error {
	rows, now := [][]string{}, time.Now()
	for _, t := range tokens {
		if only.Scheme != "" && !only.MatchToken(t.Info) {
			continue
		}
		for _, s := range t.Slots {
			if listed(s) {
				r := present.RowOf(s, now)
				rows = append(rows, []string{present.Token(t.Info), r.ID, r.Label, marked(r.Key.Value, r.Key.Level), r.PIN, r.Touch,
					marked(r.Certificate.Value, r.Certificate.Level), marked(r.Expires.Value, r.Expires.Level), shortURI(s.URI)})
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	w := a.out()
	w.table([]string{"TOKEN", "SLOT", "LABEL", "KEY", "PIN", "TOUCH", "CERTIFICATE", "EXPIRES", "URI"}, rows)
	return w.flush()
}

// listed reports whether a slot has a key, or one half of one.
func listed(s hsm.Slot) bool { return s.Key != nil || s.Half.OfKey() }

// shortURI leaves out the attributes that name the library.
func shortURI(u hsm.URI) string {
	u.ModulePath, u.Manufacturer, u.Model = "", "", ""
	return u.String()
}
