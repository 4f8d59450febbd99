package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/present"
)

type tokenDoc struct {
	URI hsm.URI `json:"uri"`
	hsm.TokenInfo
	Can   *struct{} `json:"can,omitempty"` // hides TokenInfo's, which is for programs of ours
	Slots []slotDoc `json:"slots,omitempty"`
	Error *errorDoc `json:"error,omitempty"`
}

type slotDoc struct {
	URI         hsm.URI         `json:"uri"`
	ID          string          `json:"id"`
	Label       string          `json:"label,omitempty"`
	Key         *hsm.Key        `json:"key,omitempty"`
	Certificate *certificateDoc `json:"certificate,omitempty"`
	// Older counts the further certificates for the same key.
	Older   int      `json:"olderCertificates,omitempty"`
	Half    hsm.Half `json:"half,omitempty"` // set if a part of the key is missing
	Problem string   `json:"problem,omitempty"`
}

func (a *app) tokenList() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the tokens that are present",
		Example: `kubehsm token list
kubehsm token list -o json
kubehsm token list --module /usr/lib/softhsm/libsofthsm2.so`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		show := a.tokenTable
		if o.value != "" { // a document comes whole
			show = nil
		}
		v, err := a.views(c.Context(), show)
		if err != nil {
			return err
		}
		doc := struct {
			Tokens   []tokenDoc   `json:"tokens"`
			Problems []problemDoc `json:"problems,omitempty"`
		}{Tokens: []tokenDoc{}, Problems: problemDocs(v.problems)}
		notes := a.err()
		for _, t := range v.tokens {
			d := tokenDoc{URI: t.Info.URI(), TokenInfo: t.Info, Error: errorDocOf(t.Err)}
			for _, s := range t.Slots {
				d.Slots = append(d.Slots, slotDocOf(s))
			}
			doc.Tokens = append(doc.Tokens, d)
			if t.Err != nil {
				notes.line("note: %s: %s", t.Info.Name(), ui.Message(t.Err))
			}
		}
		notes.problems(v.problems, len(v.tokens) > 0)
		failed := v.unread(len(v.tokens) > 0)
		if len(v.tokens) == 0 && failed == nil {
			notes.line("%s", present.NoToken)
		}
		if err := a.expiryNotes(notes); err != nil {
			return err
		}
		if o.value == "" {
			err = a.tokenTable(v.late())
		} else {
			err = a.emit(o, doc, nil)
		}
		if err == nil {
			err = failed
		}
		return err
	})
	o = output(c)
	return c
}

func keyCount(t hsm.View) string {
	if t.Err != nil {
		return "?"
	}
	keys := 0
	for _, s := range t.Slots {
		if s.Key != nil {
			keys++
		}
	}
	return strconv.Itoa(keys)
}

func (a *app) tokenTable(tokens []hsm.View) error {
	if len(tokens) == 0 {
		return nil
	}
	rows := [][]string{}
	for _, t := range tokens {
		uri := t.Info.URI()
		uri.ModulePath = "" // long, and not needed to name the token
		secrets := present.Secrets(t.Info, nil)
		pin := marked(secrets[0].Value, secrets[0].Level)
		rows = append(rows, []string{present.Token(t.Info), present.Kind(t.Info), t.Info.Serial, pin, keyCount(t),
			uri.String()})
	}
	w := a.out()
	w.table([]string{"TOKEN", "KIND", "SERIAL", "PIN", "KEYS", "URI"}, rows)
	return w.flush()
}

func (a *app) expiryNotes(notes *words) error {
	env, err := a.env()
	if err != nil {
		return err
	}
	warnings, err := enroll.NewRenewer(env).ExpiryWarnings()
	if err != nil {
		notes.line("note: %s", ui.Message(err))
	}
	for _, warning := range warnings {
		notes.line("warning: %s", warning)
	}
	return notes.flush()
}
