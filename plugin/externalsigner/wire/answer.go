package wire

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxAnswer is the largest answer read, in bytes.
const MaxAnswer = 1 << 20

const maxChain = 16

// ErrAnswer says that a signer's answer could not be understood.
var ErrAnswer = errors.New("malformed external signer answer")

type answer struct {
	APIVersion  string   `json:"apiVersion"`
	Kind        string   `json:"kind"`
	Certificate *string  `json:"certificate"`
	Chain       [][]byte `json:"chain"` // ours: the KEP has the certificate alone
	Signature   *string  `json:"signature"`
}

// CertificateAnswer writes the answer to a [Certificate] request; der is the
// certificate in DER, chain are the issuers to present after it. They are in a
// field of their own, which clients that do not know it pass over. The answer ends
// with a line feed.
func CertificateAnswer(d Dialect, der []byte, chain ...[]byte) []byte {
	var issuers strings.Builder
	for i, issuer := range chain {
		issuers.WriteString([]string{`,"chain":["`, `","`}[min(i, 1)] + base64.StdEncoding.EncodeToString(issuer))
	}
	if len(chain) > 0 {
		issuers.WriteString(`"]`)
	}
	return encode(kindOf(d, Certificate).answer, "certificate", der, issuers.String())
}

// SignAnswer writes the answer to a [Sign] request. It ends with a line feed.
func SignAnswer(d Dialect, signature []byte) []byte {
	return encode(kindOf(d, Sign).answer, "signature", signature, "")
}

// encode writes JSON by hand: nothing needs escapes, and setting up encoding/json takes as long as
// verifying the signature.
func encode(kind, field string, value []byte, more string) []byte {
	return []byte(`{"apiVersion":"` + APIVersion + `","kind":"` + kind + `","` + field + `":"` +
		base64.StdEncoding.EncodeToString(value) + `"` + more + "}\n")
}

// ParseCertificateAnswer reads a certificate, and the issuers to present after it,
// from a signer's answer, in whatever dialect. Errors wrap [ErrAnswer].
func ParseCertificateAnswer(b []byte) ([]*x509.Certificate, error) {
	der, chain, err := value(b, Certificate)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	if len(chain) > maxChain {
		return nil, fmt.Errorf("%w: %d issuer certificates, but at most %d are allowed", ErrAnswer, len(chain), maxChain)
	}
	certs := make([]*x509.Certificate, 0, 1+len(chain))
	for _, each := range slices.Concat([][]byte{der}, chain) {
		cert, err := x509.ParseCertificate(each)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
		}
		certs = append(certs, cert)
	}
	return certs, nil
}

// ParseSignAnswer reads a signature from a signer's answer, in whatever
// dialect. Errors wrap [ErrAnswer].
func ParseSignAnswer(b []byte) ([]byte, error) {
	sig, _, err := value(b, Sign)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return sig, nil
}

// value ignores unknown fields: other signers may send more.
func value(b []byte, o Operation) (v []byte, chain [][]byte, err error) {
	if len(b) > MaxAnswer {
		return nil, nil, fmt.Errorf("more than %d bytes", MaxAnswer)
	}
	var a answer
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, nil, err
	}
	if a.APIVersion != APIVersion {
		return nil, nil, fmt.Errorf("apiVersion is %.80q, not %s", a.APIVersion, APIVersion)
	}
	if a.Kind != kindOf(KEP, o).answer && a.Kind != kindOf(Prototype, o).answer {
		return nil, nil, fmt.Errorf("kind is %.80q, not %s", a.Kind, kindOf(KEP, o).answer)
	}
	encoded := a.Signature
	if o == Certificate {
		encoded = a.Certificate
	}
	if encoded == nil || *encoded == "" {
		return nil, nil, fmt.Errorf("the %s is empty", a.Kind)
	}
	v, err = base64.StdEncoding.DecodeString(*encoded)
	return v, a.Chain, err
}
