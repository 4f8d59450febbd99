package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow"
)

// tokenDoc is a token in JSON and YAML.
type tokenDoc struct {
	URI hsm.URI `json:"uri"`
	hsm.TokenInfo
	Slots []slotDoc `json:"slots,omitempty"`
	Error *errorDoc `json:"error,omitempty"`
}

type slotDoc struct {
	URI         hsm.URI         `json:"uri"`
	ID          string          `json:"id"`
	Label       string          `json:"label,omitempty"`
	Key         *hsm.Key        `json:"key,omitempty"`
	Certificate *certificateDoc `json:"certificate,omitempty"`
	Problem     string          `json:"problem,omitempty"`
}

func (a *app) tokenList() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the tokens that are present, and what is on them",
		Example: `kubehsm token list
kubehsm token list -o json
kubehsm token list --module /usr/lib/softhsm/libsofthsm2.so`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		env, err := a.env()
		if err != nil {
			return err
		}
		tokens, problems, err := env.Tokens(c.Context())
		if err != nil {
			return err
		}
		doc := struct {
			Tokens   []tokenDoc   `json:"tokens"`
			Problems []problemDoc `json:"problems,omitempty"`
		}{Tokens: []tokenDoc{}, Problems: problemDocs(problems)}
		rows := [][]string{}
		notes := a.err()
		for _, t := range tokens {
			d := tokenDoc{URI: t.Info.URI(), TokenInfo: t.Info, Error: errorDocOf(t.Err)}
			for _, s := range t.Slots {
				d.Slots = append(d.Slots, slotDocOf(s))
			}
			doc.Tokens = append(doc.Tokens, d)
			uri := t.Info.URI()
			uri.ModulePath = "" // long, and not needed to name the token
			rows = append(rows, []string{t.Info.Name(), t.Info.Model, t.Info.Serial, pinWords(t.Info), keyCount(t), uri.String()})
			if t.Err != nil {
				notes.line("note: %s: %s", t.Info.Name(), ui.Message(t.Err))
			}
		}
		notes.problems(problems, len(tokens) > 0)
		if len(tokens) == 0 && unread(tokens, problems) == nil {
			notes.line("No tokens found.")
		}
		warnings, err := env.ExpiryWarnings()
		if err != nil {
			notes.line("note: %s", ui.Message(err))
		}
		for _, warning := range warnings {
			notes.line("warning: %s", warning)
		}
		if err := notes.flush(); err != nil {
			return err
		}
		err = a.emit(o, doc, func(w *words) {
			if len(rows) > 0 {
				w.table([]string{"TOKEN", "MODEL", "SERIAL", "PIN", "KEYS", "URI"}, rows)
			}
		})
		if err == nil {
			err = unread(tokens, problems)
		}
		return err
	})
	o = output(c)
	return c
}

// keyCount counts the keys on a token, as far as it could be read.
func keyCount(t flow.TokenView) string {
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

// errUnread is the answer to scripts where what is not listed may yet be there.
var errUnread = errors.New("not all could be read: see the notes above")

// unread is [errUnread] if a token could not be read, or there is none and a
// library failed; else nil. A library that fails beside tokens that are found is
// often one that nobody means.
func unread(tokens []flow.TokenView, problems []hsm.Problem) error {
	failed := slices.ContainsFunc(tokens, func(t flow.TokenView) bool { return t.Err != nil })
	if len(tokens) == 0 {
		failed = slices.ContainsFunc(problems, func(p hsm.Problem) bool { return errors.Is(p.Err, hsm.ErrModule) })
	}
	if failed {
		return errUnread
	}
	return nil
}

// pinWords is the state of a token's PIN in a word or two.
func pinWords(t hsm.TokenInfo) string {
	switch s := t.PIN; {
	case !t.Initialized:
		return "token not set up"
	case s.Locked:
		return "locked"
	case s.NotSet:
		return "not set"
	case s.NotNeeded:
		return "not needed"
	case s.Final || s.Retries == 1:
		return "1 try left"
	case s.Retries > 1:
		return fmt.Sprintf("%d tries left", s.Retries)
	case s.Low:
		return "few tries left"
	}
	return "set"
}
