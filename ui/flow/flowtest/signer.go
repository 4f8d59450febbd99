package flowtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// Issue approves a request and signs its certificate, as a cluster's approver and
// signer do. It is good for an hour by the real clock.
func (s *Server) Issue(name string) {
	s.t.Helper()
	s.IssueFor(name, time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
}

// IssueFor is Issue with a beginning and an end.
func (s *Server) IssueFor(name string, from, until time.Time) {
	s.t.Helper()
	var r certificatesv1.CertificateSigningRequest
	if !s.Get(Requests, name, &r) {
		s.t.Fatalf("there is no request %s", name)
	}
	block, _ := pem.Decode(r.Spec.Request)
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		s.t.Fatal(err)
	}
	der := certify(s.t, asked.Subject, asked.PublicKey, from, until)
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: "True", Reason: "Test"}}
	r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.Put(Requests, &r)
}

// Deny denies a request for good.
func (s *Server) Deny(name, message string) {
	s.t.Helper()
	var r certificatesv1.CertificateSigningRequest
	if !s.Get(Requests, name, &r) {
		s.t.Fatalf("there is no request %s", name)
	}
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: "True", Message: message}}
	s.Put(Requests, &r)
}

// certify signs a client certificate by an authority that nobody knows.
func certify(t testing.TB, subject pkix.Name, key any, from, until time.Time) []byte {
	t.Helper()
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: subject, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, &x509.Certificate{Subject: pkix.Name{CommonName: "kubernetes"}}, key, authority)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
