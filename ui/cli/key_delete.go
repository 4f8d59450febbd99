package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/present"
)

type deletedDoc struct {
	Deleted     slotDoc  `json:"deleted"`
	Enrollments []string `json:"enrollments,omitempty"` // enrollments that used the key
	Commands    []string `json:"commands,omitempty"`    // commands that make new keys for them
}

func (a *app) keyDelete() *cobra.Command {
	var o *format
	var key string
	var r risk
	c := a.command(&cobra.Command{
		Use:   "delete",
		Short: "Destroy a key on a token, and its certificate",
		Long: `Destroys a key and its certificate, after you have typed the token's serial. Nothing
brings the key back. The command first shows which enrollments use the key. It also
destroys half a key that an interrupted command left. Not every PIV card can delete
keys: YubiKeys can from firmware 5.7 on, and "kubehsm token info" shows whether a card
can. On other cards, overwrite the key with "kubehsm key generate --overwrite".`,
		Example: `kubehsm key delete --key 'piv:serial=12345678;slot=9a'
kubehsm key delete --key 'pkcs11:token=trial;object=old' --accept-risk serial:a1b2c3d4`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) (err error) {
		ctx := c.Context()
		keys, u, err := a.oneKey(key)
		if err != nil {
			return err
		}
		l, done, err := keys.Find(ctx, u, a.prompter()) // it may be half a key, for which the token is unlocked until done
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
		slot := l.Slots[0]
		if slot.Key == nil && !slot.Half.OfKey() {
			return hint.With(fmt.Errorf("%s: %w", slot.URI, hsm.ErrNoKey),
				"`yubico-piv-tool -a delete-certificate` or `pkcs11-tool --delete-object --type cert` removes a certificate")
		}
		if err := l.Deletable(); err != nil {
			return err
		}
		question, detail := present.DestroyKey(l)
		if err := a.confirmLoss(ctx, &r, l, detail, question); err != nil {
			return err
		}
		if err := keys.Delete(ctx, slot.URI, l, a.prompter()); err != nil {
			return err
		}
		return a.emit(o, deletedDoc{slotDocOf(slot), l.Enrollments, l.Commands}, func(w *words) {
			w.line("The key %s is destroyed.", present.Place(slot))
			for _, line := range present.Anew(l.Commands) {
				w.block(line)
			}
		})
	})
	keyFlag(c, &key)
	r.bind(c.Flags())
	a.secretFD(c.Flags(), "management-key-fd", "a PIV card's management key, in hex,", isManagementKey)
	o = output(c)
	return c
}
