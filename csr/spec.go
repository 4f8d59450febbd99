package csr

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kubehsm/kubehsm/hsm/shared/span"
)

const (
	// ReasonAnnotation holds the requester's words to the approver. Annotations
	// are not part of what is signed.
	ReasonAnnotation = "kubehsm.github.io/reason"

	// MinExpiration is the shortest lifetime the API accepts.
	MinExpiration = 10 * time.Minute

	maxNameUser = 30

	randomEnd = 13 // characters of base32: 65 bits
)

// Spec is a CertificateSigningRequest to be filed. Record it before Create:
// calling Create again with the same Spec continues instead of failing.
type Spec struct {
	// Name of the object, a DNS-1123 subdomain; see RequestName.
	Name string
	// Request is the PEM of the PKCS#10 request.
	Request []byte
	// SignerName is who shall sign, "domain/path"; empty means ClientSigner.
	SignerName string
	// Usages asked for; nil means those that fit the key (ClientUsages).
	Usages []certificatesv1.KeyUsage
	// Expiration is the lifetime asked for, rounded down to seconds: at least
	// MinExpiration, or 0 to leave it to the signer.
	Expiration time.Duration
	// Reason is kept in ReasonAnnotation if it is not empty.
	Reason string
	// Labels and Annotations of the object.
	Labels, Annotations map[string]string
}

// ClientUsages are the usages a client certificate for this key may have from
// ClientSigner: only RSA keys can encipher keys.
func ClientUsages(pub crypto.PublicKey) []certificatesv1.KeyUsage {
	u := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	if _, ok := pub.(*rsa.PublicKey); ok {
		u = append(u, certificatesv1.UsageKeyEncipherment)
	}
	return u
}

// Object checks the spec by the rules of the API and of ClientSigner and gives
// the object to file. The error is an *InputError or says what is wrong with
// the request.
func (s Spec) Object() (*certificatesv1.CertificateSigningRequest, error) {
	info, err := InspectRequest(s.Request)
	if err != nil {
		return nil, err
	}
	signer := s.SignerName
	if signer == "" {
		signer = ClientSigner
	}
	if err := s.validate(signer, info); err != nil {
		return nil, err
	}
	obj := &certificatesv1.CertificateSigningRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        s.Name,
			Labels:      maps.Clone(s.Labels),
			Annotations: maps.Clone(s.Annotations),
		},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    slices.Clone(s.Request),
			SignerName: signer,
			Usages:     slices.Clone(s.Usages),
		},
	}
	if obj.Spec.Usages == nil {
		obj.Spec.Usages = ClientUsages(info.PublicKey)
	}
	if s.Expiration != 0 {
		seconds := int32(s.Expiration / time.Second)
		obj.Spec.ExpirationSeconds = &seconds
	}
	if s.Reason != "" {
		if obj.Annotations == nil {
			obj.Annotations = map[string]string{}
		}
		obj.Annotations[ReasonAnnotation] = s.Reason
	}
	return obj, nil
}

func (s Spec) validate(signer string, info *RequestInfo) error {
	if err := ValidName(s.Name); err != nil {
		return err
	}
	if err := validateSigner(signer); err != nil {
		return err
	}
	if err := ValidExpiration(s.Expiration); err != nil {
		return err
	}
	// For other signers the subject is the signer's business, usages too.
	if signer != ClientSigner {
		return nil
	}
	if err := info.Subject.Validate(signer); err != nil {
		return err
	}
	rule, _ := signerRules(signer) // which the cluster applies after somebody has approved
	if problem := rule.usageProblem(s.Usages, info.PublicKey); s.Usages != nil && problem != "" {
		return &InputError{Field: "usages", Problem: "of " + signer + ": " + problem}
	}
	return nil
}

// ValidName says why name cannot be a request's; the error is an *InputError.
func ValidName(name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return &InputError{Field: "name", Problem: fmt.Sprintf("%q: %s", name, problems[0])}
	}
	return nil
}

// ValidExpiration says why d cannot be asked for; 0 can. The error is an
// *InputError.
func ValidExpiration(d time.Duration) error {
	if d == 0 || d >= MinExpiration && d/time.Second <= math.MaxInt32 {
		return nil
	}
	return &InputError{
		Field:   "expiration",
		Problem: fmt.Sprintf("%s is not between %s and 68 years", span.Of(d), span.Of(MinExpiration)),
		hint:    "leave it out to let the signer decide",
	}
}

func validateSigner(name string) error {
	domain, path, ok := strings.Cut(name, "/")
	bad := !ok || !strings.Contains(domain, ".") || len(validation.IsDNS1123Subdomain(domain)) > 0
	for part := range strings.SplitSeq(path, "/") {
		bad = bad || len(validation.IsDNS1123Subdomain(part)) > 0
	}
	if bad {
		return &InputError{Field: "signer", Problem: fmt.Sprintf("%q is not of the form domain/path", name),
			hint: "for example " + ClientSigner}
	}
	return nil
}

// RequestName makes a name for a request of user with the key of that
// SPKIHash: readable, a DNS-1123 label, and with 64 random bits at its end, so
// that no two names are the same and nobody guesses one.
func RequestName(user, spkiHash string) string {
	parts := []string{nameSafe(user, maxNameUser), nameSafe(spkiHash, 8), strings.ToLower(rand.Text()[:randomEnd])}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "-")
}

// nameSafe keeps the ASCII letters and digits of s, up to limit characters,
// and puts one dash for every run of others between them.
func nameSafe(s string, limit int) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(s) {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			dash = b.Len() > 0
			continue
		}
		if dash {
			b.WriteByte('-')
			dash = false
		}
		b.WriteRune(r)
	}
	out := b.String()
	if len(out) > limit {
		out = out[:limit]
	}
	return strings.TrimRight(out, "-")
}
