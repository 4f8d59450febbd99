package csr

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
)

const (
	requestBlock     = "CERTIFICATE REQUEST"
	certificateBlock = "CERTIFICATE"

	minRSABits = 2048
)

// ErrSignature is a self-signature that does not verify: the token (or its
// driver) signed something else, or with another key than it names.
var ErrSignature = errors.New("the request's own signature does not verify")

// RequestOptions are the parts of a PKCS#10 request beside subject and key.
type RequestOptions struct {
	// SignerName is whom the request is for; empty means ClientSigner. It only
	// decides which subjects are allowed.
	SignerName string
	// ExtraExtensions are requested extensions as they are, for example an
	// attestation. No two may share an id.
	ExtraExtensions []pkix.Extension
	// Subject alternative names; ClientSigner copies them to the certificate.
	DNSNames       []string
	EmailAddresses []string
	IPAddresses    []net.IP
	URIs           []*url.URL
}

// NewRequest builds a PKCS#10 request (RFC 2986) for the signer's public key,
// signs it with one operation of the signer, verifies the result and returns
// it as PEM. ECDSA P-256, P-384, P-521, RSA of at least 2048 bits and Ed25519
// keys are accepted. A bad argument gives an *InputError before the signer is
// used.
func NewRequest(signer crypto.Signer, subject Subject, opts RequestOptions) ([]byte, error) {
	if signer == nil {
		return nil, &InputError{Field: "key", Problem: "is missing"}
	}
	if err := subject.Validate(opts.SignerName); err != nil {
		return nil, err
	}
	alg, err := signatureAlgorithm(signer.Public())
	if err != nil {
		return nil, err
	}
	if err := opts.checkExtensions(); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:            subject.Name(),
		SignatureAlgorithm: alg,
		ExtraExtensions:    opts.ExtraExtensions,
		DNSNames:           opts.DNSNames,
		EmailAddresses:     opts.EmailAddresses,
		IPAddresses:        opts.IPAddresses,
		URIs:               opts.URIs,
	}, signer)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate request: %w", err)
	}
	if err := verifyOwn(der, signer.Public()); err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: der}), nil
}

func (o RequestOptions) checkExtensions() error {
	hasNames := len(o.DNSNames)+len(o.EmailAddresses)+len(o.IPAddresses)+len(o.URIs) > 0
	for i, e := range o.ExtraExtensions {
		if hasNames && e.Id.Equal(oidAlternativeNames) {
			return &InputError{Field: "extension", Problem: "alternative names are given twice"}
		}
		for _, f := range o.ExtraExtensions[:i] {
			if e.Id.Equal(f.Id) {
				return &InputError{Field: "extension", Problem: e.Id.String() + " is given twice"}
			}
		}
	}
	return nil
}

// verifyOwn checks a request just made: a token can be wrong about its key.
func verifyOwn(der []byte, want crypto.PublicKey) error {
	req, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return fmt.Errorf("read back the certificate request: %w", err)
	}
	if err := req.CheckSignature(); err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	spki, err := x509.MarshalPKIXPublicKey(want)
	if err != nil {
		return fmt.Errorf("encode the public key: %w", err)
	}
	if !bytes.Equal(spki, req.RawSubjectPublicKeyInfo) {
		return fmt.Errorf("%w: it holds another public key", ErrSignature)
	}
	return nil
}

// signatureAlgorithm is the one that fits the key's strength (FIPS 186-5).
// PKCS#1 v1.5 is taken for RSA since not every token can do PSS.
func signatureAlgorithm(pub crypto.PublicKey) (x509.SignatureAlgorithm, error) {
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256():
			return x509.ECDSAWithSHA256, nil
		case elliptic.P384():
			return x509.ECDSAWithSHA384, nil
		case elliptic.P521():
			return x509.ECDSAWithSHA512, nil
		}
		return 0, &InputError{Field: "key", Problem: "its elliptic curve is not supported", hint: "use P-256 or P-384"}
	case *rsa.PublicKey:
		if k.N == nil || k.N.BitLen() < minRSABits {
			return 0, &InputError{Field: "key", Problem: fmt.Sprintf("RSA keys need at least %d bits", minRSABits)}
		}
		return x509.SHA256WithRSA, nil
	case ed25519.PublicKey:
		return x509.PureEd25519, nil
	default:
		return 0, &InputError{Field: "key", Problem: fmt.Sprintf("keys of type %T are not supported", pub), hint: "use P-256"}
	}
}
