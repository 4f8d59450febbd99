package piv

import (
	"context"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Attest implements [hsm.Administration].
func (t *Token) Attest(ctx context.Context, u hsm.URI) (hsm.Attestation, error) {
	id, slot, err := t.keyed(ctx, u)
	if err != nil {
		return hsm.Attestation{}, err
	}
	return on(ctx, t.card, func(s *applet.Session) (hsm.Attestation, error) {
		statement, err := s.Keys.Attest(id)
		switch status := applet.StatusOf(err); {
		case status.Unknown():
			return hsm.Attestation{}, fmt.Errorf("this card does not attest keys: %w", hsm.ErrUnsupported)
		case status != 0 && slot.Key.Origin == hsm.Imported:
			return hsm.Attestation{}, hint.With(
				fmt.Errorf("slot %s: the key was imported, not generated: %w: %w", slot.ID, hsm.ErrUnsupported, err),
				"generate a key on the token instead")
		case status != 0:
			return hsm.Attestation{}, fmt.Errorf("slot %s: the card does not attest it: %w: %w", slot.ID, hsm.ErrUnsupported,
				err)
		case err != nil:
			return hsm.Attestation{}, err
		}
		intermediate, found, err := s.Objects.Attester()
		if err != nil {
			return hsm.Attestation{}, fmt.Errorf("certificate of slot f9: %w", err)
		}
		if !found {
			return hsm.Attestation{}, fmt.Errorf("slot f9: %w: the attestation cannot be traced to its maker",
				hsm.ErrNoCertificate)
		}
		return hsm.Attestation{Statement: statement, Intermediate: intermediate}, nil
	})
}

// Details implements [hsm.Administration].
func (t *Token) Details(ctx context.Context) (hsm.Details, error) {
	return on(ctx, t.card, func(s *applet.Session) (hsm.Details, error) {
		d := hsm.Details{IdentityFrom: s.ID.From}
		var err error
		if d.PIN, d.PUK, err = s.PINs.Counters(); err != nil {
			return d, err
		}
		st, err := s.Management.State()
		if err != nil {
			return d, err
		}
		kept, _, err := s.Management.Kept()
		if err != nil {
			return d, err
		}
		d.ManagementKey = hsm.ManagementKeyState{
			Algorithm: st.Algorithm(), Default: st.Default, Protected: kept, Touch: st.Touch}
		_, attester, err := s.Objects.Attester()
		if err != nil && !applet.Refused(err) {
			return d, err
		}
		// Some cards have the certificate and not the command.
		d.Attests = attester && t.card.about().Can.Attest
		d.FormFactor, d.FIPS, err = s.FormFactor() // the form factor comes last: reading it leaves the application
		return d, err
	})
}
