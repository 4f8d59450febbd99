package cli

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
)

// keyFlag adds --key, which must be given.
func keyFlag(c *cobra.Command, key *string) {
	c.Flags().StringVar(key, "key", "", "`URI` of the key, as `kubehsm key list` shows it")
	_ = c.MarkFlagRequired("key") // it exists
}

func (a *app) keyShow() *cobra.Command {
	var o *format
	var key string
	c := a.command(&cobra.Command{
		Use:   "show",
		Short: "Show a key on a token: where it is from, what guards it, its certificate",
		Long: `Shows what the token says of a key. With -o pem it prints the public key. Whether the
token's word can be trusted is what "kubehsm key attest" answers.`,
		Example: `kubehsm key show --key 'pkcs11:token=trial;object=prod'
kubehsm key show --key 'piv:serial=12345678;slot=9a' -o pem`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		env, u, err := a.keyEnv(key)
		if err != nil {
			return err
		}
		slot, err := env.Slot(c.Context(), u)
		if err != nil {
			return err
		}
		if slot.Key == nil {
			return fmt.Errorf("%s: %w", slot.URI, hsm.ErrNoKey)
		}
		if o.value == "pem" {
			der, err := x509.MarshalPKIXPublicKey(slot.Key.Public)
			if err != nil {
				return fmt.Errorf("%s: %w", slot.URI, err)
			}
			w := a.out()
			w.block(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
			return w.flush()
		}
		d, err := keyDocOf(slot)
		if err != nil {
			return err
		}
		return a.emit(o, d, func(w *words) { keyWords(w, slot, d) })
	})
	keyFlag(c, &key)
	o = output(c, "pem")
	return c
}

func keyWords(w *words, s hsm.Slot, d keyDoc) {
	leaves := "cannot leave the token"
	if d.Extractable {
		leaves = "can be read out of the token"
	}
	w.fields("Key", s.URI.String(), "Label", d.Label, "Algorithm", string(d.Algorithm), "Origin", string(d.Origin),
		"Private part", leaves, "PIN", told(d.PINPolicy, hsm.PINDefault), "Touch", told(d.TouchPolicy, hsm.TouchDefault), "Fingerprint", d.Fingerprint,
		"… in words", strings.Join(d.Words, " "), "Problem", d.Problem)
	if s.Certificate != nil {
		w.line("")
		certificateDocOf(s.Certificate).words(w)
	}
}

// told is a policy, "" if the token does not tell it.
func told[P interface {
	comparable
	String() string
}](p, unknown P) string {
	if p == unknown {
		return ""
	}
	return p.String()
}
