package cli

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow"
)

func (a *app) keyList() *cobra.Command {
	var o *format
	var token string
	c := a.command(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the keys on the tokens",
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
		env, err := a.env()
		if err != nil {
			return err
		}
		tokens, problems, err := env.Tokens(c.Context())
		if err != nil {
			return err
		}
		if token != "" {
			tokens = slices.DeleteFunc(tokens, func(t flow.TokenView) bool { return !only.MatchToken(t.Info) })
		}
		doc := struct {
			Keys     []keyDoc     `json:"keys"`
			Problems []problemDoc `json:"problems,omitempty"`
		}{Keys: []keyDoc{}, Problems: problemDocs(problems)}
		rows := [][]string{}
		notes := a.err()
		for _, t := range tokens {
			if t.Err != nil {
				notes.line("note: %s: %s", t.Info.Name(), ui.Message(t.Err))
				doc.Problems = append(doc.Problems, problemDocs([]hsm.Problem{{Source: t.Info.URI().String(), Err: t.Err}})...)
			}
			for _, s := range t.Slots {
				if s.Key == nil {
					continue
				}
				d, err := keyDocOf(s)
				if err != nil {
					return err
				}
				doc.Keys = append(doc.Keys, d)
				key, cert := slotWords(s)
				rows = append(rows, []string{t.Info.Name(), s.ID, s.Label, key, cert, shortURI(s.URI)})
			}
		}
		notes.problems(problems, len(tokens) > 0)
		if token != "" && len(tokens) == 0 {
			return errors.Join(notes.flush(), hsm.WithHint(hsm.ErrNoToken, "`kubehsm token list` shows what is there"))
		}
		failed := unread(tokens, problems)
		if len(rows) == 0 && failed == nil {
			notes.line("No keys found.")
		}
		if err := notes.flush(); err != nil {
			return err
		}
		err = a.emit(o, doc, func(w *words) {
			if len(rows) > 0 {
				w.table([]string{"TOKEN", "ID", "LABEL", "ALGORITHM", "CERTIFICATE", "URI"}, rows)
			}
		})
		if err == nil {
			err = failed
		}
		return err
	})
	c.Flags().StringVar(&token, "token", "", "only the keys on this token, by its `URI`")
	o = output(c)
	return c
}

// shortURI leaves out what names the library rather than the key.
func shortURI(u hsm.URI) string {
	u.ModulePath, u.Manufacturer, u.Model = "", "", ""
	return u.String()
}
