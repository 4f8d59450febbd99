package attest

import (
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// Verifier says whom to trust. The zero value trusts Yubico.
type Verifier struct {
	// Roots are trusted in the place of Yubico's, if there are any.
	Roots []*x509.Certificate
	// Now is the time of judgement; zero is the present.
	Now time.Time
}

// Verify checks that the attestation is traced to a trusted root and, if key
// is not nil, that it is for key. Errors wrap [ErrMalformed], [ErrUnknownIssuer] or
// [ErrOtherKey]; with the last two the statement is returned as it claims to
// be, without a Root.
func (v Verifier) Verify(a hsm.Attestation, key crypto.PublicKey) (Statement, error) {
	cert, err := x509.ParseCertificate(a.Statement)
	if err != nil {
		return Statement{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	s, err := parse(cert)
	if err != nil {
		return s, err
	}
	device, err := x509.ParseCertificate(a.Intermediate)
	if err != nil {
		return s, fmt.Errorf("%w: the device's certificate: %w", ErrMalformed, err)
	}
	root, err := v.trace(cert, device)
	if err != nil {
		return s, err
	}
	if key != nil && !hsm.SameKey(key, cert.PublicKey) {
		return s, ErrOtherKey
	}
	s.Root = root.Subject.CommonName
	return s, nil
}

const maxRSABits = 8192

// trace follows the signatures from the statement to a root.
func (v Verifier) trace(statement, device *x509.Certificate) (*x509.Certificate, error) {
	// A statement must not pass for a device: the owner signs what he likes
	// with the key that it is for.
	if _, is := extension(device, oidPolicy); is || strings.HasPrefix(device.Subject.CommonName, subjectPrefix) {
		return nil, fmt.Errorf("%w: its issuer is no attestation key", ErrUnknownIssuer)
	}
	// The owner makes up the device's certificate: the check of a signature takes seconds for a key that is long enough.
	if k, is := device.PublicKey.(*rsa.PublicKey); is && k.N.BitLen() > maxRSABits {
		return nil, fmt.Errorf("%w: its issuer's RSA key has %d bits, more than %d", ErrUnknownIssuer, k.N.BitLen(), maxRSABits)
	}
	roots, intermediates, err := v.pools(device)
	if err != nil {
		return nil, err
	}
	// Devices of firmware 4 have no basic constraints in f9's certificate.
	if !device.BasicConstraintsValid && device.Subject.CommonName == "Yubico PIV Attestation" {
		device.BasicConstraintsValid, device.IsCA = true, true
	}
	if err := statement.CheckSignatureFrom(device); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnknownIssuer, err)
	}
	chains, err := statement.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: v.Now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnknownIssuer, err)
	}
	for _, chain := range chains {
		if len(chain) >= 3 && chain[1].Equal(device) {
			return chain[len(chain)-1], nil
		}
	}
	return nil, fmt.Errorf("%w: the device's certificate has no part in it", ErrUnknownIssuer)
}

func (v Verifier) pools(device *x509.Certificate) (roots, intermediates *x509.CertPool, err error) {
	roots, intermediates = x509.NewCertPool(), x509.NewCertPool()
	intermediates.AddCert(device)
	if len(v.Roots) > 0 {
		for _, r := range v.Roots {
			roots.AddCert(r)
		}
		return roots, intermediates, nil
	}
	trusted, err := YubicoRoots()
	if err != nil {
		return nil, nil, err
	}
	for _, r := range trusted {
		if strings.HasPrefix(r.Subject.CommonName, "Yubico U2F Root") {
			// Its path length of 0 leaves no room for the device's certificate
			// that it signed: Yubico's own verification ignores it.
			r.MaxPathLen, r.MaxPathLenZero = 1, false
		}
		roots.AddCert(r)
	}
	more, err := yubicoIntermediates()
	if err != nil {
		return nil, nil, err
	}
	for _, c := range more {
		intermediates.AddCert(c)
	}
	return roots, intermediates, nil
}
