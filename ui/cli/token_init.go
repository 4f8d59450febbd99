package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) tokenInit() *cobra.Command {
	var o *format
	var token, label string
	var erase bool
	var r risk
	c := a.command(&cobra.Command{
		Use:   "init",
		Short: "Initialize a blank PKCS#11 token: label, SO PIN, user PIN",
		Long: `Gives a blank PKCS#11 token its label, a new SO PIN and a user PIN. With --erase,
initializes a token that is in use: that needs its SO PIN, destroys everything on it,
and asks you to type its serial. PIV cards need no initialization.`,
		Example: `kubehsm token init --label trial
kubehsm token init --label trial --token 'pkcs11:slot-id=1'
kubehsm token init --label trial --token 'pkcs11:token=old' --erase`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		ctx := c.Context()
		u := hsm.Blank()
		switch {
		case token != "":
			var err error
			if u, err = hsm.ParseURI(token); err != nil {
				return err
			}
		case erase:
			return ui.Usagef("--erase: name the token with --token")
		}
		tokens, err := a.tokens()
		if err != nil {
			return err
		}
		if erase {
			l, err := tokens.Loss(ctx, u.TokenOnly())
			if err != nil {
				return err
			}
			question, detail := present.Erase(l.Token)
			if err := a.confirmLoss(ctx, &r, l, detail, question); err != nil {
				return err
			}
			u = l.Token.URI()
		}
		info, err := tokens.Init(ctx, u, hsm.InitializeOptions{Label: label, Erase: erase}, a.prompter())
		if err != nil {
			return err
		}
		return a.emit(o, tokenDoc{URI: info.URI(), TokenInfo: info}, func(w *words) {
			w.line("The token is initialized.")
			w.facts(tokenFacts(info, present.TokenFacts(info, nil)))
		})
	})
	f := c.Flags()
	f.StringVar(&token, "token", "", "`URI` of the token, see \"kubehsm token list\"; default the only blank one")
	f.StringVar(&label, "label", "", "label of the token, a `text` of at most 32 bytes (required)")
	f.BoolVar(&erase, "erase", false, "erase and initialize a token that is in use")
	ensure(c.MarkFlagRequired("label"))
	r.bind(f)
	a.secretFD(f, "so-pin-fd", "the SO PIN", isSOPIN)
	a.secretFD(f, "new-pin-fd", "the new user PIN", isNewPIN)
	o = output(c)
	return c
}
