package cli

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/present"
)

func keyFlag(c *cobra.Command, key *string) {
	c.Flags().StringVar(key, "key", "", "`URI` of the key, see \"kubehsm key list\"")
	ensure(c.MarkFlagRequired("key"))
}

func (a *app) keyShow() *cobra.Command {
	var o *format
	var key string
	c := a.command(&cobra.Command{
		Use:   "show",
		Short: "Show a key on a token: its origin, policies and certificate",
		Long: `Shows what the token says of a key. With -o pem, prints the public key. To verify what
the token says, run "kubehsm key attest".`,
		Example: `kubehsm key show --key 'pkcs11:token=trial;object=prod'
kubehsm key show --key 'piv:serial=12345678;slot=9a' -o pem`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		keys, u, err := a.oneKey(key)
		if err != nil {
			return err
		}
		slot, err := keys.Slot(c.Context(), u)
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
		return a.emit(o, d, func(w *words) { w.sections(present.KeySections(slot, time.Now())) })
	})
	keyFlag(c, &key)
	o = output(c, "pem")
	return c
}
