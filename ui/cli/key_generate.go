package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/present"
)

// fits refuses options that the kind of token ignores: the key would silently be in another place,
// or protected less, than was asked for.
func fits(o hsm.GenerateOptions, kind hsm.Kind) error {
	if kind.HasSlots() {
		if o.Label != "" {
			return ui.Usagef("--label: a PIV card has slots and no labels; --slot chooses one")
		}
		return nil
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"slot", o.Slot != ""}, {"overwrite", o.Overwrite}, {"touch-policy", o.Touch != hsm.TouchDefault}} {
		if f.set {
			return ui.Usagef("--%s: this is for PIV cards; keys on a PKCS#11 token get places of their own, which "+
				"--label names",
				f.name)
		}
	}
	return nil
}

func (a *app) keyGenerate() *cobra.Command {
	var o *format
	var token string
	var f optionFlags
	c := a.command(&cobra.Command{
		Use:     "generate",
		Aliases: []string{"gen"},
		Short:   "Generate a key pair on a token",
		Long:    `Generates a key pair on a token. The private key never leaves the token.`,
		Example: `kubehsm key generate --token 'pkcs11:token=trial' --label prod
kubehsm key generate --token 'piv:serial=1234567' --slot 9a --touch-policy cached`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		ctx := c.Context()
		given, err := f.read()
		if err != nil {
			return err
		}
		options := given.Generate
		if options.Algorithm == "" {
			options.Algorithm = hsm.ECDSAP256
		}
		u, err := a.token(ctx, token)
		if err != nil {
			return err
		}
		if err := fits(given.Generate, u.Kind()); err != nil {
			return err
		}
		if options.Slot == "" {
			options.Slot = u.NewSlot()
		}
		keys, err := a.keys()
		if err != nil {
			return err
		}
		if err := keys.Makes(ctx, u, options); err != nil {
			return err
		}
		if options.Overwrite {
			if options.Overwrite, err = a.confirmOverwrite(ctx, u, options.Slot); err != nil {
				return err
			}
		}
		slot, err := keys.Generate(ctx, u, options, a.prompter())
		if err != nil {
			return err
		}
		d, err := keyDocOf(slot)
		if err != nil {
			return err
		}
		return a.emit(o, d, func(w *words) {
			w.fields("Key", slot.URI.String(), "Algorithm", string(d.Algorithm), "Fingerprint", d.Fingerprint)
		})
	})
	c.Flags().StringVar(&token, "token", "", "`URI` of the token, see \"kubehsm token list\"; default the only one "+
		"present")
	f.bind(c.Flags(), enrolling.OfKey)
	a.secretFD(c.Flags(), "management-key-fd", "a PIV card's management key, in hex,", isManagementKey)
	o = output(c)
	return c
}

// confirmOverwrite shows what is lost and has the person type the token's serial. It returns false
// without a question if the slot is empty.
func (a *app) confirmOverwrite(ctx context.Context, u hsm.URI, slot string) (bool, error) {
	tokens, err := a.tokens()
	if err != nil {
		return false, err
	}
	at := u.TokenOnly()
	at.Slot = slot
	l, err := tokens.Loss(ctx, at)
	if errors.Is(err, hsm.ErrNoKey) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := a.lossWords(l); err != nil {
		return false, err
	}
	question, detail := present.Overwrite(l.Token, slot)
	yes, err := a.prompter().Confirm(ctx, hsm.ConfirmPrompt{Detail: detail, Question: question,
		Type: l.Serial(), Short: l.Short})
	if err == nil && !yes {
		err = fmt.Errorf("%w: nothing was changed", hsm.ErrCancelled)
	}
	return yes, err
}
