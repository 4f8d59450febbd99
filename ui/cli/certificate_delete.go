package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) certificateDelete() *cobra.Command {
	var o *format
	var key string
	var r risk
	c := a.command(&cobra.Command{
		Use:   "delete",
		Short: "Remove the certificate beside a key on a token; the key stays",
		Long: `Removes a certificate from a token, after the token's serial was typed. The key stays,
and so does the copy that an enrollment keeps. "kubehsm certificate export" saves it before.`,
		Example: `kubehsm certificate delete --key 'piv:serial=12345678;slot=9a'
kubehsm certificate delete --key 'pkcs11:token=trial;object=prod' --accept-risk serial:a1b2c3d4`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) (err error) {
		ctx := c.Context()
		keys, l, done, err := a.lossAt(ctx, key)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
		slot := l.Slots[0]
		if slot.Certificate == nil && slot.Problem == "" {
			return fmt.Errorf("%s: %w", slot.URI, hsm.ErrNoCertificate)
		}
		l.Enrollments = nil // they have a copy
		question, detail := present.RemoveCertificate(l)
		if err := a.confirmLoss(ctx, &r, l, detail, question); err != nil {
			return err
		}
		if err := keys.DeleteCertificate(ctx, slot.URI, l, a.prompter()); err != nil {
			return err
		}
		return a.emit(o, deletedDoc{Deleted: slotDocOf(slot)},
			func(w *words) { w.line("The certificate %s is removed.", present.Place(slot)) })
	})
	keyFlag(c, &key)
	r.bind(c.Flags())
	a.secretFD(c.Flags(), "management-key-fd", "a PIV card's management key, in hex,", isManagementKey)
	o = output(c)
	return c
}
