package csr

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"unicode/utf8"
)

// The bounds of a request, which anybody may file. They hold before any work that costs more than reading it.
const (
	MaxRequest = 16 << 10 // bytes of its PEM
	MaxGroups  = 64
	MaxName    = 253 // characters of the user or of a group
	MaxRSABits = 8192
)

// ErrBound is a request that exceeds a bound.
var ErrBound = errors.New("the request exceeds a bound")

// RequestInfo is what a PKCS#10 request says, for the one who must decide on it.
// All text in it was chosen by the requester.
type RequestInfo struct {
	// Subject is the user and the groups as Kubernetes will read them.
	Subject Subject
	// DistinguishedName is the whole subject (RFC 2253), with parts that
	// Kubernetes ignores.
	DistinguishedName string
	// KeyAlgorithm is the kind of key in words: "ECDSA P-256", "RSA 2048", "Ed25519".
	KeyAlgorithm string
	// PublicKey is the key asked for.
	PublicKey crypto.PublicKey
	// SPKIHash is the key's fingerprint: hex SHA-256 of its SubjectPublicKeyInfo.
	SPKIHash string
	// Alternative names asked for.
	DNSNames       []string
	EmailAddresses []string
	IPAddresses    []net.IP
	URIs           []*url.URL
	// Extensions are all the requested extensions, an attestation among them.
	Extensions []pkix.Extension
	// Oddities are properties an approver should be told, in words.
	Oddities []string
}

// AlternativeNames are all the names asked for beside the subject (RFC 5280,
// 4.2.1.6), with their kind: "DNS:a.example". Of kinds that Kubernetes has no
// use for only the number is told.
func (r *RequestInfo) AlternativeNames() []string {
	var names []string
	for _, n := range r.DNSNames {
		names = append(names, "DNS:"+n)
	}
	for _, n := range r.EmailAddresses {
		names = append(names, "email:"+n)
	}
	for _, n := range r.IPAddresses {
		names = append(names, "IP:"+n.String())
	}
	for _, n := range r.URIs {
		names = append(names, "URI:"+n.String())
	}
	for _, e := range r.Extensions {
		if !e.Id.Equal(oidAlternativeNames) {
			continue
		}
		var all []asn1.RawValue
		if _, err := asn1.Unmarshal(e.Value, &all); err != nil {
			names = append(names, "what cannot be read")
		} else if others := len(all) - len(names); others > 0 {
			names = append(names, fmt.Sprintf("%d of other kinds", others))
		}
	}
	return names
}

var (
	oidCommonName       = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidAlternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidOrganization     = asn1.ObjectIdentifier{2, 5, 4, 10}
	oidBasicConstraints = asn1.ObjectIdentifier{2, 5, 29, 19}
)

// InspectRequest parses the PEM of a PKCS#10 request and verifies its
// self-signature. A request that is malformed, followed by a second one, or
// signed by another key than its own is an error, and so is one that exceeds a
// bound ([ErrBound]), on which no more work is done.
func InspectRequest(data []byte) (*RequestInfo, error) {
	req, err := parseRequest(data)
	if err != nil {
		return nil, err
	}
	return &RequestInfo{
		Subject:           subjectOf(req.Subject),
		DistinguishedName: req.Subject.String(),
		KeyAlgorithm:      KeyAlgorithm(req.PublicKey),
		PublicKey:         req.PublicKey,
		SPKIHash:          hashHex(req.RawSubjectPublicKeyInfo),
		DNSNames:          req.DNSNames,
		EmailAddresses:    req.EmailAddresses,
		IPAddresses:       req.IPAddresses,
		URIs:              req.URIs,
		Extensions:        req.Extensions,
		Oddities:          oddities(req),
	}, nil
}

func parseRequest(data []byte) (*x509.CertificateRequest, error) {
	if len(data) > MaxRequest {
		return nil, fmt.Errorf("%w: it has %d bytes, more than %d", ErrBound, len(data), MaxRequest)
	}
	block, rest := pem.Decode(data)
	if block == nil || block.Type != requestBlock {
		return nil, fmt.Errorf("no PEM block %q in the request", requestBlock)
	}
	if next, _ := pem.Decode(rest); next != nil {
		return nil, fmt.Errorf("more than one PEM block in the request")
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate request: %w", err)
	}
	if err := bounds(req); err != nil { // the check of a signature takes seconds for a key that is long enough
		return nil, fmt.Errorf("%w: %w", ErrBound, err)
	}
	// One key has one form, or it has as many hashes as its holder wants, and no list of keys holds it.
	if spki, err := x509.MarshalPKIXPublicKey(req.PublicKey); err != nil || !bytes.Equal(spki, req.RawSubjectPublicKeyInfo) {
		return nil, fmt.Errorf("%w: its key is not in the usual form (RFC 5280 section 4.1.2.7)", ErrBound)
	}
	if err := req.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	return req, nil
}

func bounds(req *x509.CertificateRequest) error {
	groups := req.Subject.Organization
	if len(groups) > MaxGroups {
		return fmt.Errorf("it asks for %d groups, more than %d", len(groups), MaxGroups)
	}
	for _, name := range append([]string{req.Subject.CommonName}, groups...) {
		if utf8.RuneCountInString(name) > MaxName {
			return fmt.Errorf("the name %.20q… has more than %d characters", name, MaxName)
		}
	}
	switch k := req.PublicKey.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
	case *rsa.PublicKey:
		if k.N.BitLen() > MaxRSABits {
			return fmt.Errorf("its RSA key has %d bits, more than %d", k.N.BitLen(), MaxRSABits)
		}
	default:
		return fmt.Errorf("its key is of an unknown kind, %s", req.PublicKeyAlgorithm)
	}
	return nil
}

func subjectOf(n pkix.Name) Subject {
	return Subject{User: n.CommonName, Groups: slices.Clone(n.Organization)}
}

// KeyAlgorithm names the kind and size of a public key in words.
func KeyAlgorithm(pub crypto.PublicKey) string {
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		return "ECDSA " + k.Curve.Params().Name
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", k.N.BitLen())
	case ed25519.PublicKey:
		return "Ed25519"
	default:
		return "unknown"
	}
}

// SPKIHash is the fingerprint by which a public key is named everywhere: the
// SHA-256 of its DER SubjectPublicKeyInfo in lower-case hex, 64 characters.
func SPKIHash(pub crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return "", fmt.Errorf("encode the public key: %w", err)
	}
	return hashHex(der), nil
}

func hashHex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func oddities(req *x509.CertificateRequest) []string {
	var out []string
	names := 0
	for _, a := range req.Subject.Names {
		switch {
		case a.Type.Equal(oidCommonName):
			names++
		case !a.Type.Equal(oidOrganization):
			out = append(out, "the subject has an attribute that Kubernetes ignores: "+a.Type.String())
		}
	}
	if names > 1 {
		out = append(out, fmt.Sprintf("the subject has %d common names; the last one counts", names))
	}
	s := subjectOf(req.Subject)
	if err := validateName("user", s.User); err != nil {
		out = append(out, err.Error())
	}
	for i, g := range s.Groups {
		if err := validateName("group", g); err != nil {
			out = append(out, err.Error())
		}
		if slices.Contains(s.Groups[:i], g) {
			out = append(out, fmt.Sprintf("group: %q is named twice", g))
		}
		if g == mastersGroup {
			out = append(out, "it asks for "+mastersGroup+", which bypasses all access rules")
		}
	}
	if k, ok := req.PublicKey.(*rsa.PublicKey); ok && k.N.BitLen() < minRSABits {
		out = append(out, fmt.Sprintf("its key is too short: RSA %d", k.N.BitLen()))
	}
	if asksForCA(req) {
		out = append(out, "it asks to be a certificate authority")
	}
	return out
}

func asksForCA(req *x509.CertificateRequest) bool {
	for _, e := range req.Extensions {
		if !e.Id.Equal(oidBasicConstraints) {
			continue
		}
		var bc struct {
			IsCA bool `asn1:"optional"`
			Path int  `asn1:"optional,default:-1"`
		}
		// What cannot be read is reported too: nobody harmless sends it.
		if _, err := asn1.Unmarshal(e.Value, &bc); err != nil || bc.IsCA {
			return true
		}
	}
	return false
}
