package piv

import (
	"context"
	"crypto/x509"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
)

// StoreCertificate implements [hsm.Token].
func (t *Token) StoreCertificate(ctx context.Context, u hsm.URI, cert *x509.Certificate, p hsm.Prompter) error {
	id, slot, err := t.keyed(ctx, u)
	if err != nil {
		return err
	}
	return manage(ctx, t, p, func(s *applet.Session) error {
		// Read again: between the question and now the slot may have changed.
		found, err := s.Keys.Read(id)
		switch {
		case err != nil:
			return err
		case found.Key == nil:
			return fmt.Errorf("slot %s: %w", slot.ID, hsm.ErrNoKey)
		case !found.Guessed && !hsm.SameKey(found.Key.Public, cert.PublicKey):
			return fmt.Errorf("slot %s: the certificate is for another key: %w", slot.ID, hsm.ErrKeyMismatch)
		}
		if err := t.card.begin(s); err != nil {
			return err
		}
		return s.Objects.PutCertificate(id, cert)
	})
}
