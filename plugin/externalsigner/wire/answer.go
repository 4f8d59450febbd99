package wire

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// MaxAnswer is the largest answer read, in bytes.
const MaxAnswer = 1 << 20

// ErrAnswer says that a signer's answer could not be understood.
var ErrAnswer = errors.New("malformed external signer answer")

// answer is an answer as it is read.
type answer struct {
	APIVersion  string  `json:"apiVersion"`
	Kind        string  `json:"kind"`
	Certificate *string `json:"certificate"`
	Signature   *string `json:"signature"`
}

// CertificateAnswer writes the answer to a [Certificate] request; der is the
// certificate in DER. It ends with a line feed.
func CertificateAnswer(d Dialect, der []byte) []byte {
	return encode(kindOf(d, Certificate).answer, "certificate", der)
}

// SignAnswer writes the answer to a [Sign] request. It ends with a line feed.
func SignAnswer(d Dialect, signature []byte) []byte {
	return encode(kindOf(d, Sign).answer, "signature", signature)
}

// encode writes an answer by hand: no part of it needs escapes, and to set up
// encoding/json for it would take as long as the signature's verification.
func encode(kind, field string, value []byte) []byte {
	return []byte(`{"apiVersion":"` + APIVersion + `","kind":"` + kind + `","` + field + `":"` +
		base64.StdEncoding.EncodeToString(value) + `"}` + "\n")
}

// ParseCertificateAnswer reads a certificate from a signer's answer, in
// whatever dialect. Errors wrap [ErrAnswer].
func ParseCertificateAnswer(b []byte) (*x509.Certificate, error) {
	der, err := value(b, Certificate)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return cert, nil
}

// ParseSignAnswer reads a signature from a signer's answer, in whatever
// dialect. Errors wrap [ErrAnswer].
func ParseSignAnswer(b []byte) ([]byte, error) {
	sig, err := value(b, Sign)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return sig, nil
}

// value reads the one value of an answer to o. Fields that are not known are
// passed over: other signers may say more.
func value(b []byte, o Operation) ([]byte, error) {
	if len(b) > MaxAnswer {
		return nil, fmt.Errorf("more than %d bytes", MaxAnswer)
	}
	var a answer
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, err
	}
	if a.APIVersion != APIVersion {
		return nil, fmt.Errorf("apiVersion is %.80q, not %s", a.APIVersion, APIVersion)
	}
	if a.Kind != kindOf(KEP, o).answer && a.Kind != kindOf(Prototype, o).answer {
		return nil, fmt.Errorf("kind is %.80q, not %s", a.Kind, kindOf(KEP, o).answer)
	}
	encoded := a.Signature
	if o == Certificate {
		encoded = a.Certificate
	}
	if encoded == nil || *encoded == "" {
		return nil, fmt.Errorf("the %s is empty", a.Kind)
	}
	return base64.StdEncoding.DecodeString(*encoded)
}
