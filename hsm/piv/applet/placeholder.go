package applet

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// A plain PIV card tells a public key once, when it makes it (SP 800-73-4 part 2 section
// 3.3.2). Until there is a certificate a placeholder keeps the public key beside it: a
// certificate that expired when it was made, by a key that nobody has. Other programs see
// the key by it, and none offers it to a server.
const placeholderName = "kubehsm: a key that awaits its certificate"

// isPlaceholder recognizes one, by any program of ours.
func isPlaceholder(cert *x509.Certificate) bool {
	return cert != nil && cert.Subject.CommonName == placeholderName && cert.NotAfter.Equal(cert.NotBefore)
}

// PutPlaceholder writes one for a key beside it.
func (o Objects) PutPlaceholder(slot byte, public crypto.PublicKey) error {
	nobody, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	made := time.Now().Truncate(time.Second)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: placeholderName},
		NotBefore: made, NotAfter: made}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, nobody)
	if err != nil {
		return fmt.Errorf("make the placeholder certificate: %w", err)
	}
	return o.PutCertificate(slot, &x509.Certificate{Raw: der})
}

// noted is the key that a placeholder keeps.
func noted(cert *x509.Certificate) *hsm.Key {
	return &hsm.Key{Algorithm: hsm.AlgorithmOf(cert.PublicKey), Public: cert.PublicKey}
}
