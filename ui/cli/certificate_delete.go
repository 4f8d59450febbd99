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
	var older bool
	var r risk
	c := a.command(&cobra.Command{
		Use:   "delete",
		Short: "Delete the certificate of a key from its token",
		Long: `Deletes a certificate from a token, after you have typed the token's serial. The key
stays, and so does the copy in an enrollment. To save the certificate first, run
"kubehsm certificate show -o pem". With --older, the newest certificate of the key stays
too, and only older ones are deleted, such as one left by an interrupted command.`,
		Example: `kubehsm certificate delete --key 'piv:serial=12345678;slot=9a'
kubehsm certificate delete --key 'pkcs11:token=trial;object=prod' --older
kubehsm certificate delete --key 'pkcs11:token=trial;object=prod' --accept-risk serial:a1b2c3d4`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) (err error) {
		ctx := c.Context()
		keys, l, release, err := a.lossAt(ctx, key)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release()) }()
		slot := l.Slots[0]
		if slot.Certificate == nil && slot.Problem == "" {
			return fmt.Errorf("%s: %w", slot.URI, hsm.ErrNoCertificate)
		}
		l.Enrollments = nil // enrollments keep a copy of the certificate
		say, remove := present.RemoveCertificate, keys.DeleteCertificate
		done := "The certificate %s is removed."
		if older {
			if len(slot.Older) == 0 {
				return fmt.Errorf("%s: there is no older certificate: %w", slot.URI, hsm.ErrNoCertificate)
			}
			say, remove = present.RemoveOlder, keys.DeleteOlder
			done = "The older certificates %s are removed."
		}
		question, detail := say(l)
		if err := a.confirmLoss(ctx, &r, l, detail, question); err != nil {
			return err
		}
		if err := remove(ctx, slot.URI, l, a.prompter()); err != nil {
			return err
		}
		return a.emit(o, deletedDoc{Deleted: slotDocOf(slot)},
			func(w *words) { w.line(done, present.Place(slot)) })
	})
	keyFlag(c, &key)
	c.Flags().BoolVar(&older, "older", false, "keep the newest certificate for the key, and remove older ones")
	r.bind(c.Flags())
	a.secretFD(c.Flags(), "management-key-fd", "a PIV card's management key, in hex,", isManagementKey)
	o = output(c)
	return c
}
