package piv

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
)

// Delete implements [hsm.Token]: key and certificate, or the certificate alone
// if there is no key. A card whose firmware keeps keys is left as it was.
func (t *Token) Delete(ctx context.Context, u hsm.URI, p hsm.Prompter) error {
	id, slot, err := t.occupied(ctx, u)
	if err != nil {
		return err
	}
	if slot.Key != nil && !t.card.about().Can.Delete {
		return fmt.Errorf("delete slot %s: %w", slot.ID, applet.NoDelete())
	}
	err = manage(ctx, t, p, func(s *applet.Session) error {
		if err := t.card.begin(s); err != nil {
			return err
		}
		if slot.Key != nil {
			// A placeholder may stand for a key that is gone already.
			if err := s.Keys.Delete(id); err != nil && !errors.Is(err, hsm.ErrNoKey) {
				return err
			}
		}
		return s.Objects.DeleteCertificate(id)
	})
	if err != nil {
		return fmt.Errorf("delete slot %s: %w", slot.ID, err)
	}
	return nil
}
