package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) tokenWait() *cobra.Command {
	var o *format
	var uri string
	var timeout time.Duration
	var fresh bool
	c := a.command(&cobra.Command{
		Use:   "wait",
		Short: "Wait until a token is inserted",
		Long: `Waits until a token is present, any or the one that --token names, and shows its reader
and serial. With --new, tokens that are present already do not count.`,
		Example: `kubehsm token wait --token 'piv:serial=12345678'
kubehsm token wait --new --timeout 1m -o json`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		options := token.WaitOptions{New: fresh, Waiting: a.waiting}
		if uri != "" {
			u, err := hsm.ParseURI(uri)
			if err != nil {
				return err
			}
			options.Token = u.TokenOnly()
		}
		tokens, err := a.tokens()
		if err != nil {
			return err
		}
		ctx := c.Context()
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		found, err := tokens.Wait(ctx, options)
		if err != nil {
			return err
		}
		doc := struct {
			Tokens []tokenDoc `json:"tokens"`
		}{}
		rows := [][]string{}
		for _, t := range found {
			doc.Tokens = append(doc.Tokens, tokenDoc{URI: t.URI(), TokenInfo: t})
			rows = append(rows, []string{t.Name(), t.Reader, t.Serial, shortURI(t.URI())})
		}
		return a.emit(o, doc, func(w *words) { w.table([]string{"TOKEN", "READER", "SERIAL", "URI"}, rows) })
	})
	c.Flags().StringVar(&uri, "token", "", "`URI` of the token to wait for; default any token")
	c.Flags().BoolVar(&fresh, "new", false, "ignore tokens that are present already")
	c.Flags().DurationVar(&timeout, "timeout", 0, "time limit, a `duration` such as 1h; default none")
	o = output(c)
	return c
}

func (a *app) waiting(problems []hsm.Problem, others []hsm.TokenInfo) {
	w := a.err()
	w.problems(problems, true)
	w.line("Waiting for a token. Insert it.")
	if len(others) > 0 {
		w.line("Present, but not the token to wait for:")
	}
	for _, t := range others {
		line := "  " + present.Token(t) + "  " + shortURI(t.URI())
		if why := present.Unusable(t); why != "" {
			line += "  (" + why + ")"
		}
		w.line("%s", line)
	}
	_ = w.flush()
}
