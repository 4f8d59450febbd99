package loopback

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"time"
)

// Authority is a certificate authority (CA).
type Authority struct {
	// Certificate is the authority's own, which it signed itself.
	Certificate *x509.Certificate

	key *ecdsa.PrivateKey
}

// NewAuthority makes an authority called name, with a P-256 key that is in memory alone.
func NewAuthority(name string, life time.Duration) (*Authority, error) {
	return newAuthority(name, life, &x509.Certificate{})
}

// newAuthority makes an authority with the name constraints of t, which it changes.
func newAuthority(name string, life time.Duration, t *x509.Certificate) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	t.SerialNumber, t.Subject = serial, pkix.Name{CommonName: name}
	t.NotBefore, t.NotAfter = now.Add(-backdated), now.Add(life)
	t.KeyUsage, t.BasicConstraintsValid, t.IsCA, t.MaxPathLenZero = x509.KeyUsageCertSign, true, true, true
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	ca, err := x509.ParseCertificate(der)
	return &Authority{ca, key}, err
}

// Issue makes a certificate for a new P-256 key that signs. Names, dates and usages are
// those of t, which Issue changes. It returns the certificate as DER and the key as PEM,
// which the caller clears.
func (a *Authority) Issue(t *x509.Certificate) (der, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if t.SerialNumber, err = newSerial(); err != nil {
		return nil, nil, err
	}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	if der, err = x509.CreateCertificate(rand.Reader, t, a.Certificate, key.Public(), a.key); err != nil {
		return nil, nil, err
	}
	keyPEM, err = encodeKey(key)
	return der, keyPEM, err
}

const keyType = "EC PRIVATE KEY"

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	defer clear(der)
	return pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: der}), nil
}

// encode is the authority's certificate and key as PEM, which the caller clears.
func (a *Authority) encode() ([]byte, error) {
	key, err := encodeKey(a.key)
	defer clear(key)
	return append(CertificatePEM(a.Certificate.Raw), key...), err
}

// parseAuthority reads what encode wrote.
func parseAuthority(text []byte) (*Authority, error) {
	certificate, rest := pem.Decode(text)
	key, _ := pem.Decode(rest)
	if certificate == nil || key == nil || key.Type != keyType {
		return nil, errors.New("it has no certificate and key")
	}
	defer clear(key.Bytes)
	a := &Authority{}
	var err error
	if a.Certificate, err = x509.ParseCertificate(certificate.Bytes); err != nil {
		return nil, err
	}
	if a.key, err = x509.ParseECPrivateKey(key.Bytes); err != nil {
		return nil, err
	}
	if !a.key.PublicKey.Equal(a.Certificate.PublicKey) {
		return nil, errors.New("the key is not that of the certificate")
	}
	return a, nil
}

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

// CertificatePEM is a certificate as PEM.
func CertificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
