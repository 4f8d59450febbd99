package piv

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// attest is Yubico's ATTEST (firmware 4.3): the card's certificate for a key
// that it generated, in DER.
func (s *session) attest(slot byte) ([]byte, error) {
	if v := s.id.version; v.known() && !v.since(4, 3) {
		return nil, swUnknownINS
	}
	return s.send(command{ins: insAttest, p1: slot})
}

// Attest implements [hsm.Administration].
func (t *Token) Attest(ctx context.Context, u hsm.URI) (hsm.Attestation, error) {
	id, slot, err := t.occupied(ctx, u)
	if err != nil {
		return hsm.Attestation{}, err
	}
	if slot.Key == nil {
		return hsm.Attestation{}, fmt.Errorf("slot %s: %w", slot.ID, hsm.ErrNoKey)
	}
	return do(ctx, t, func(s *session) (hsm.Attestation, error) {
		statement, err := s.attest(id)
		switch {
		case unknownCommand(err):
			return hsm.Attestation{}, fmt.Errorf("this card makes no attestations: %w", hsm.ErrUnsupported)
		case statusOf(err) != 0 && slot.Key.Origin == hsm.Imported:
			return hsm.Attestation{}, hint.With(fmt.Errorf("slot %s: the key was imported, not generated: %w: %w", slot.ID, hsm.ErrUnsupported, err), "generate a key on the token instead")
		case statusOf(err) != 0:
			return hsm.Attestation{}, fmt.Errorf("slot %s: the card does not attest it: %w: %w", slot.ID, hsm.ErrUnsupported, err)
		case err != nil:
			return hsm.Attestation{}, err
		}
		content, err := s.getObject(objectAttestation)
		if err != nil {
			return hsm.Attestation{}, fmt.Errorf("certificate of slot f9: %w", err)
		}
		if len(content) == 0 {
			return hsm.Attestation{}, fmt.Errorf("slot f9: %w: the attestation cannot be traced to its maker", hsm.ErrNoCertificate)
		}
		fields, err := parseTLV(content)
		if err != nil {
			return hsm.Attestation{}, nonsense{err}
		}
		intermediate, _ := fields.get(0x70)
		return hsm.Attestation{Statement: statement, Intermediate: intermediate}, nil
	})
}

// Details implements [hsm.Administration].
func (t *Token) Details(ctx context.Context) (hsm.Details, error) {
	return do(ctx, t, func(s *session) (hsm.Details, error) {
		d := hsm.Details{IdentityFrom: s.id.from}
		for ref, tries := range map[byte]**hsm.Tries{refPIN: &d.PIN, refPUK: &d.PUK} {
			m, err := s.metadata(ref)
			if err == nil && m.hasTries {
				*tries = &hsm.Tries{Left: m.left, Total: m.total, Default: m.isDefault}
			} else if err != nil && !refused(err) && !errors.Is(err, errNoReference) {
				return d, err
			}
		}
		if d.PIN == nil {
			n, err := s.pinTries()
			if err != nil {
				return d, err
			}
			if n >= 0 {
				d.PIN = &hsm.Tries{Left: n}
			}
		}
		st, err := s.managementState()
		if err != nil {
			return d, err
		}
		flags, err := s.pivman()
		if err != nil {
			return d, err
		}
		d.ManagementKey = hsm.ManagementKeyState{Algorithm: managementName(st.code), Default: st.isDefault, Protected: flags.stored, Touch: st.touch}
		f9, err := s.getObject(objectAttestation)
		if err != nil && !refused(err) {
			return d, err
		}
		d.Attests = len(f9) > 0
		code, err := s.formFactor() // last: it leaves the application
		d.FormFactor, d.FIPS = formFactorName(code), code&0x80 != 0
		return d, err
	})
}
