package csr

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/hsm/shared/span"
)

// ErrWrongCertificate is a certificate that is not the one asked for; the
// error wrapping it says in what.
var ErrWrongCertificate = errors.New("not the certificate that was asked for")

// CertificateError is a certificate that cannot be used. It unwraps to
// ErrWrongCertificate.
type CertificateError struct {
	// Problem says what is wrong.
	Problem string

	hint string
}

func (e *CertificateError) Error() string {
	return ErrWrongCertificate.Error() + ": " + e.Problem
}

// Unwrap gives ErrWrongCertificate.
func (e *CertificateError) Unwrap() error { return ErrWrongCertificate }

// Hint says what to do.
func (e *CertificateError) Hint() string {
	return cmp.Or(e.hint, "do not use it: ask the cluster's admin what signed it, then file a new request")
}

// Certificate is a client certificate with what must be presented beside it.
type Certificate struct {
	// Leaf is the client's own certificate.
	Leaf *x509.Certificate
	// Chain are the intermediates, in the order they came.
	Chain []*x509.Certificate
	// PEM is leaf and chain as CERTIFICATE blocks, without any other text.
	PEM []byte
	// Shortfall is by how much the lifetime is shorter than was asked for; 0 if
	// it is not, nothing was asked for, or it is too little to matter.
	Shortfall time.Duration
	// Notes are observations for the user that do not stand in the way, in words.
	Notes []string
}

// Subject is the user and the groups in the leaf.
func (c *Certificate) Subject() Subject { return subjectOf(c.Leaf.Subject) }

// Want is what a certificate must match.
type Want struct {
	// PublicKey is the key in the token; nil leaves that comparison out.
	PublicKey crypto.PublicKey
	// Request is the PEM filed; nil means the one in the object. With it, an
	// object that was exchanged meanwhile is noticed.
	Request []byte
	// Now is the time to judge validity by; zero means the present.
	Now time.Time
}

// Collect takes the certificate out of an issued request and checks that it is
// the one asked for: same key as the request and as want.PublicKey, same user
// and groups, allowed for client authentication if that was asked for, valid.
// The error is that of the state if there is no certificate (*DeniedError,
// *FailedError), or a *CertificateError.
func Collect(obj *certificatesv1.CertificateSigningRequest, want Want) (*Certificate, error) {
	if len(obj.Status.Certificate) == 0 {
		s := StateOf(obj)
		if err := s.Err(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("request %s has no certificate yet: it is %s", obj.Name, s.State)
	}
	if want.Request != nil && !bytes.Equal(bytes.TrimSpace(want.Request), bytes.TrimSpace(obj.Spec.Request)) {
		return nil, &CertificateError{Problem: "the request in the cluster is not the one that was filed"}
	}
	req, err := parseRequest(obj.Spec.Request)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", obj.Name, err)
	}
	cert, err := ParseCertificate(obj.Status.Certificate)
	if err != nil {
		return nil, fmt.Errorf("certificate of request %s: %w", obj.Name, err)
	}
	if !bytes.Equal(cert.Leaf.RawSubjectPublicKeyInfo, req.RawSubjectPublicKeyInfo) {
		return nil, &CertificateError{Problem: "it is for another key than the request"}
	}
	if asked, got := subjectOf(req.Subject), cert.Subject(); !asked.Equal(got) {
		return nil, &CertificateError{Problem: fmt.Sprintf("asked for user %q in groups %q, got user %q in groups %q",
			asked.User, asked.Groups, got.User, got.Groups)}
	}
	if err := cert.Check(want.PublicKey, slices.Contains(obj.Spec.Usages, certificatesv1.UsageClientAuth),
		want.Now); err != nil {
		return nil, err
	}
	cert.Shortfall = shortfall(obj, cert.Leaf)
	if cert.Shortfall > 0 {
		cert.Notes = append(cert.Notes, fmt.Sprintf("it expires %s earlier than requested: the signer's maximum is shorter",
			span.Of(cert.Shortfall)))
	}
	return cert, nil
}

// ParseCertificate reads a certificate and its chain from PEM. Text around the
// blocks is skipped, the first block is the leaf (Kubernetes API reference,
// CertificateSigningRequestStatus). Blocks of another type are an error.
func ParseCertificate(data []byte) (*Certificate, error) {
	out := &Certificate{}
	for {
		var block *pem.Block
		block, data = pem.Decode(data)
		if block == nil {
			break
		}
		if block.Type != certificateBlock {
			return nil, fmt.Errorf("unexpected PEM block %q among the certificates", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse the certificate: %w", err)
		}
		if out.Leaf == nil {
			out.Leaf = cert
		} else {
			out.Chain = append(out.Chain, cert)
		}
		out.PEM = append(out.PEM, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: block.Bytes})...)
	}
	if out.Leaf == nil {
		return nil, fmt.Errorf("no PEM block %q found", certificateBlock)
	}
	return out, nil
}

// Check verifies that the certificate belongs to the key (nil leaves that out),
// may authenticate a client if clientAuth is set, and is valid at now (zero
// means the present). A start in the future is only noted: clocks differ.
func (c *Certificate) Check(key crypto.PublicKey, clientAuth bool, now time.Time) error {
	if now.IsZero() {
		now = time.Now()
	}
	own, ok := c.Leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if key != nil && !(ok && own.Equal(key)) {
		return &CertificateError{Problem: "it is for another key than the token's",
			hint: "choose the key that the request was made with"}
	}
	switch leaf := c.Leaf; {
	case leaf.IsCA:
		return &CertificateError{Problem: "it is a certificate authority's"}
	case clientAuth && !allowsClientAuth(leaf):
		return &CertificateError{Problem: "it is not allowed for client authentication"}
	case !leaf.NotAfter.After(leaf.NotBefore):
		return &CertificateError{Problem: "it ends before it begins"}
	case !leaf.NotAfter.After(now):
		return &CertificateError{
			Problem: fmt.Sprintf("it expired on %s", leaf.NotAfter.UTC().Format(time.RFC3339)),
			hint:    "check this machine's clock; if it is right, file a new request",
		}
	case leaf.NotBefore.After(now):
		c.Notes = append(c.Notes, fmt.Sprintf("it is not valid before %s: this machine's clock may be slow",
			leaf.NotBefore.UTC().Format(time.RFC3339)))
	}
	c.noteChain()
	return nil
}

// allowsClientAuth: without the extension nothing is restricted for RFC 5280,
// but the API server demands it.
func allowsClientAuth(leaf *x509.Certificate) bool {
	return slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) ||
		slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny)
}

// noteChain notes intermediates that are no chain from the leaf up; the server
// may still accept the leaf without them.
func (c *Certificate) noteChain() {
	child := c.Leaf
	for i, parent := range c.Chain {
		if err := child.CheckSignatureFrom(parent); err != nil {
			c.Notes = append(c.Notes, fmt.Sprintf("certificate %d of the chain did not sign the one before it", i+2))
			return
		}
		child = parent
	}
}

// shortfall compares with the lifetime asked for, counted from the approval:
// the signer acts after it. Signers backdate by minutes and may take those off
// the end, so small differences are not reported.
func shortfall(obj *certificatesv1.CertificateSigningRequest, leaf *x509.Certificate) time.Duration {
	if obj.Spec.ExpirationSeconds == nil {
		return 0
	}
	from := obj.CreationTimestamp.Time
	if c := condition(obj, certificatesv1.CertificateApproved); c != nil && c.LastTransitionTime.After(from) {
		from = c.LastTransitionTime.Time
	}
	asked := time.Duration(*obj.Spec.ExpirationSeconds) * time.Second
	missing := from.Add(asked).Sub(leaf.NotAfter)
	if missing <= min(10*time.Minute, asked/8) {
		return 0
	}
	return missing
}
