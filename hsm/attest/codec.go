package attest

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
)

// Extensions of a PKCS#10 request that carry an attestation: the statement and
// the device's certificate, each in DER (docs.yubico.com, "PIV attestation OID
// arc"). yubico-piv-tool before version 2.7.2 wrote the statement under 11.
const (
	oidStatement    = 1
	oidIntermediate = 2
	oidStatementOld = 11
)

// ErrNone: there is no attestation.
var ErrNone = errors.New("no attestation")

// maxCertificate bounds each certificate in DER, in bytes. An API object has
// room for both.
const maxCertificate = 16 << 10

// Extensions returns the extensions for a PKCS#10 request. They are not
// critical: who does not know them may ignore them.
func Extensions(a hsm.Attestation) []pkix.Extension {
	return []pkix.Extension{
		{Id: oid(oidStatement), Value: a.Statement},
		{Id: oid(oidIntermediate), Value: a.Intermediate},
	}
}

// FromExtensions finds the attestation among a request's extensions: [ErrNone]
// if there is none, [ErrMalformed] if it is not whole.
func FromExtensions(all []pkix.Extension) (hsm.Attestation, error) {
	var a hsm.Attestation
	var old []byte
	for _, e := range all {
		switch {
		case e.Id.Equal(oid(oidStatement)):
			a.Statement = e.Value
		case e.Id.Equal(oid(oidIntermediate)):
			a.Intermediate = e.Value
		case e.Id.Equal(oid(oidStatementOld)):
			old = e.Value
		}
	}
	if a.Statement == nil {
		a.Statement = old
	}
	switch {
	case a.Statement == nil && a.Intermediate == nil:
		return a, ErrNone
	case len(a.Statement) == 0 || len(a.Intermediate) == 0:
		return a, fmt.Errorf("%w: one of its two certificates is missing", ErrMalformed)
	case len(a.Statement) > maxCertificate || len(a.Intermediate) > maxCertificate:
		return a, fmt.Errorf("%w: larger than %d bytes", ErrMalformed, maxCertificate)
	}
	return a, nil
}

// EncodePEM writes the statement and the device's certificate, in this order.
func EncodePEM(a hsm.Attestation) []byte {
	var b bytes.Buffer
	for _, der := range [][]byte{a.Statement, a.Intermediate} {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return b.Bytes()
}

// DecodePEM reads two certificates in either order; which is the statement
// shows by who signed whom. Errors wrap [ErrMalformed].
func DecodePEM(data []byte) (hsm.Attestation, error) {
	certs, err := parsePEM(data)
	if err != nil {
		return hsm.Attestation{}, err
	}
	if len(certs) != 2 {
		return hsm.Attestation{}, fmt.Errorf("%w: %d certificates, want the statement and the device's", ErrMalformed,
			len(certs))
	}
	if isStatement(certs[1]) && !isStatement(certs[0]) {
		certs[0], certs[1] = certs[1], certs[0]
	}
	return hsm.Attestation{Statement: certs[0].Raw, Intermediate: certs[1].Raw}, nil
}

func isStatement(c *x509.Certificate) bool {
	_, ok := extension(c, oidPolicy)
	return ok
}
