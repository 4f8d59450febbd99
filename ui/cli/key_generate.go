package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
)

// generateFlags are the flags that say what key to make.
type generateFlags struct {
	algorithm, label, slot, pin, touch string
	overwrite                          bool
}

func (g *generateFlags) bind(f *pflag.FlagSet) {
	f.StringVar(&g.algorithm, "algorithm", "", "`name` of the key's algorithm: ecdsa-p256 (default), ecdsa-p384, rsa-2048, rsa-3072, rsa-4096, ed25519")
	f.StringVar(&g.label, "label", "", "`text` to label a PKCS#11 key with")
	f.StringVar(&g.slot, "slot", "", "PIV `slot`: 9a (default), 9c, 9d, 9e, 82 to 95")
	f.StringVar(&g.pin, "pin-policy", "", "when a PIV key wants the PIN: never, once, always, default")
	f.StringVar(&g.touch, "touch-policy", "", "when a PIV key wants a touch: never, cached, always, default")
	f.BoolVar(&g.overwrite, "overwrite", false, "destroy the key in an occupied PIV slot; asks for the token's serial")
}

func (g *generateFlags) options() (o hsm.GenerateOptions, err error) {
	o = hsm.GenerateOptions{Slot: g.slot, Label: g.label, Overwrite: g.overwrite}
	if g.algorithm != "" {
		if o.Algorithm, err = hsm.ParseAlgorithm(g.algorithm); err != nil {
			return o, &ui.UsageError{Err: fmt.Errorf("--algorithm: %w", err)}
		}
	}
	if o.PIN, err = hsm.ParsePINPolicy(g.pin); err != nil {
		return o, &ui.UsageError{Err: fmt.Errorf("--pin-policy: %w", err)}
	}
	if o.Touch, err = hsm.ParseTouchPolicy(g.touch); err != nil {
		return o, &ui.UsageError{Err: fmt.Errorf("--touch-policy: %w", err)}
	}
	return o, nil
}

// fits refuses what means nothing to tokens of a kind: left out silently, a key
// would be in another place, or weaker guarded, than was asked for.
func (g *generateFlags) fits(kind hsm.Kind) error {
	if kind.HasSlots() {
		if g.label != "" {
			return ui.Usagef("--label: a PIV card has slots and no labels; --slot chooses one")
		}
		return nil
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"slot", g.slot != ""}, {"overwrite", g.overwrite}, {"touch-policy", g.touch != "" && g.touch != "default"}} {
		if f.set {
			return ui.Usagef("--%s: this is for PIV cards; keys on a PKCS#11 token get places of their own, which --label names", f.name)
		}
	}
	return nil
}

func (a *app) keyGenerate() *cobra.Command {
	var o *format
	var token string
	var g generateFlags
	c := a.command(&cobra.Command{
		Use:     "generate",
		Aliases: []string{"gen"},
		Short:   "Generate a key pair on a token",
		Long: `Generates a key pair on a token. The private key never leaves it.

Without --token the only token present is taken.`,
		Example: `kubehsm key generate --token 'pkcs11:token=trial' --label prod
kubehsm key generate --token 'piv:serial=1234567' --slot 9a --touch-policy cached`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		ctx := c.Context()
		options, err := g.options()
		if err != nil {
			return err
		}
		if options.Algorithm == "" {
			options.Algorithm = hsm.ECDSAP256
		}
		u, err := a.token(ctx, token)
		if err != nil {
			return err
		}
		if err := g.fits(u.Kind()); err != nil {
			return err
		}
		if options.Slot == "" {
			options.Slot = u.NewSlot()
		}
		keys, err := a.keys()
		if err != nil {
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
	c.Flags().StringVar(&token, "token", "", "`URI` of the token, as `kubehsm token list` shows it")
	g.bind(c.Flags())
	a.secretFD(c.Flags(), "management-key-fd", "a PIV card's management key, in hex,", isManagementKey)
	o = output(c)
	return c
}

// confirmOverwrite has the serial of the token typed before a key is destroyed.
// In an empty slot there is nothing to write over: then it asks nothing and
// returns false.
func (a *app) confirmOverwrite(ctx context.Context, u hsm.URI, slot string) (bool, error) {
	env, err := a.env()
	if err != nil {
		return false, err
	}
	t, err := env.Drivers.Open(ctx, u)
	if err != nil {
		return false, err
	}
	defer t.Close()
	info, err := t.Info(ctx)
	if err != nil {
		return false, err
	}
	at := u.TokenOnly()
	at.Slot = slot
	if _, err := t.Slot(ctx, at); errors.Is(err, hsm.ErrNoKey) {
		return false, nil
	}
	typed := info.Serial
	if typed == "" {
		typed = info.Name()
	}
	yes, err := a.prompter().Confirm(ctx, hsm.ConfirmPrompt{
		Detail:   fmt.Sprintf("The key in slot %s of token %q will be destroyed. Nothing brings it back.", slot, info.Name()),
		Question: "Destroy it?",
		Type:     typed,
	})
	if err == nil && !yes {
		err = fmt.Errorf("%w: nothing was changed", hsm.ErrCancelled)
	}
	return yes, err
}
