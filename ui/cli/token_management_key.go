package cli

import (
	"context"
	"encoding/hex"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
)

func (a *app) tokenManagementKey() *cobra.Command {
	return a.group("management-key", "Replace the management key of a PIV "+
		"card", verbs{"", []func() *cobra.Command{a.tokenManagementKeySet}})
}

// managementFlags say what management key to set.
type managementFlags struct {
	algorithm             string
	protect, touch, print bool
	own                   *descriptor
}

func (a *app) tokenManagementKeySet() *cobra.Command {
	var o *format
	var token string
	var m managementFlags
	c := a.command(&cobra.Command{
		Use:   "set",
		Short: "Set a new random management key",
		Long: `Replaces the management key, which a PIV card wants before it generates a key or stores
a certificate. With --protect, as in ykman, the card stores the new key and gives it out
for the PIN, so that you need not keep it. Without --protect, the key is shown once, on
the terminal. Keep it: without it, only a reset of the card helps.

If writing fails half-way, the new key is shown too: either key may be in force.`,
		Example: `kubehsm token management-key set --protect
kubehsm token management-key set --algorithm aes-256 --print > management-key`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		ctx := c.Context()
		tokens, u, err := a.oneToken(ctx, token)
		if err != nil {
			return err
		}
		options, err := a.managementOptions(ctx, u, &m)
		if err != nil {
			return err
		}
		defer options.Key.Zero()
		if options.Key == nil && !m.protect {
			if err := a.showable(ctx, m.print, "management key"); err != nil {
				return err
			}
		}
		key, d, err := tokens.SetManagementKey(ctx, u, options, a.prompter())
		return a.changed(o, d, "The management key is replaced.", m.fresh(ctx, key, err))
	})
	tokenFlag(c, &token)
	f := c.Flags()
	f.StringVar(&m.algorithm, "algorithm", "",
		"`algorithm` of the key: 3des, aes-128, aes-192, aes-256; default the one in use")
	f.BoolVar(&m.protect, "protect", false, "store the key on the card, protected by the PIN")
	f.BoolVar(&m.touch, "touch", false, "require a touch for each use of the key")
	f.BoolVar(&m.print, "print", false, "write the key to standard output instead of the terminal")
	a.secretFD(f, "management-key-fd", "the management key in force, in hex,", isManagementKey)
	m.own = a.secretFD(f, "new-management-key-fd", "the new management key, in hex,", isNewManagementKey)
	o = output(c)
	return c
}

func (a *app) managementOptions(ctx context.Context, u hsm.URI, m *managementFlags) (hsm.ManagementKeyOptions, error) {
	o := hsm.ManagementKeyOptions{Algorithm: hsm.ManagementAlgorithm(m.algorithm), Protect: m.protect, Touch: m.touch}
	switch o.Algorithm {
	case "", hsm.TDES, hsm.AES128, hsm.AES192, hsm.AES256:
	default:
		return o, ui.Usagef("--algorithm: %q is not one of 3des, aes-128, aes-192, aes-256", m.algorithm)
	}
	if m.own.fd < 0 {
		return o, nil
	}
	var err error
	o.Key, err = a.readManagementKey(ctx, hsm.TokenInfo{Scheme: u.Scheme, Serial: u.Serial})
	return o, err
}

// fresh is the new key as far as it has to be shown: one that the user gave is
// known, one that the card keeps need not be, unless something went wrong.
func (m *managementFlags) fresh(ctx context.Context, key *hsm.Secret, err error) *freshSecret {
	f := &freshSecret{ctx: ctx, what: "management key", field: "newManagementKey", print: m.print, err: err,
		secret: key}
	known := m.own.fd >= 0 || m.protect && !m.print && err == nil
	if key.Len() > 0 && !known {
		f.text = hex.EncodeToString(key.Bytes())
	}
	return f
}
