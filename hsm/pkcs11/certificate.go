//go:build cgo

package pkcs11

import (
	"context"
	"crypto/x509"
	"encoding/asn1"
	"fmt"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// StoreCertificate implements [hsm.Token]. The new certificate is written
// before older ones for the key are removed, so that there always is one.
func (t *token) StoreCertificate(ctx context.Context, u hsm.URI, cert *x509.Certificate, p hsm.Prompter) error {
	if err := t.Unlock(ctx, p); err != nil {
		return err
	}
	e, slot, err := lookup(ctx, t.d, u)
	if err != nil {
		return err
	}
	if slot.Key == nil {
		return fmt.Errorf("%s: %w", u, hsm.ErrNoKey)
	}
	if !hsm.SameKey(slot.Key.Public, cert.PublicKey) {
		return hint.With(fmt.Errorf("the certificate is for another key than %s: %w", u, hsm.ErrKeyMismatch),
			"store it in the slot of the key it was requested with")
	}
	template, err := certificateTemplate(e, e.label, cert)
	if err != nil {
		return err
	}
	// NSS's softokn refuses two certificates of one label and several subjects.
	other, err := certificateTemplate(e, fmt.Sprintf("%s %x", e.label, cert.SerialNumber), cert)
	if err != nil {
		return err
	}
	var old []p11.ObjectHandle
	stored := false
	for _, c := range e.certs {
		switch {
		case c.cert.Equal(cert) && !stored:
			stored = true
		case hsm.SameKey(c.cert.PublicKey, cert.PublicKey):
			old = append(old, c.handle)
		}
	}
	if stored && len(old) == 0 {
		return nil
	}
	err = t.d.writing(ctx, func(w writer) error {
		if !stored {
			err := w.create(template)
			if is(err, p11.CKR_ATTRIBUTE_VALUE_INVALID) && len(old) > 0 {
				err = w.create(other)
			}
			if err != nil {
				return err
			}
		}
		return w.destroy(old...)
	})
	return fault("store the certificate", err)
}

// certificateTemplate describes an X.509 certificate object (PKCS#11 v2.40
// section 4.6.3) beside e.
func certificateTemplate(e *entry, label string, cert *x509.Certificate) ([]*p11.Attribute, error) {
	serial, err := asn1.Marshal(cert.SerialNumber)
	if err != nil {
		return nil, fmt.Errorf("certificate serial: %w", err)
	}
	return []*p11.Attribute{
		p11.NewAttribute(p11.CKA_CLASS, p11.CKO_CERTIFICATE),
		p11.NewAttribute(p11.CKA_CERTIFICATE_TYPE, p11.CKC_X_509),
		p11.NewAttribute(p11.CKA_TOKEN, true),
		p11.NewAttribute(p11.CKA_PRIVATE, false),
		p11.NewAttribute(p11.CKA_LABEL, label),
		p11.NewAttribute(p11.CKA_ID, e.id),
		p11.NewAttribute(p11.CKA_SUBJECT, cert.RawSubject),
		p11.NewAttribute(p11.CKA_ISSUER, cert.RawIssuer),
		p11.NewAttribute(p11.CKA_SERIAL_NUMBER, serial),
		p11.NewAttribute(p11.CKA_VALUE, cert.Raw),
	}, nil
}
