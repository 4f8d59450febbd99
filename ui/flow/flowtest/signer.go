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

	"github.com/kubehsm/kubehsm/test/must"
)

// File has requester file a request in the name of user, with a key that nobody has.
// change, if not nil, changes it before.
func (s *Server) File(name, requester, user string, groups []string,
	change func(*certificatesv1.CertificateSigningRequest)) {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(s.t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: user, Organization: groups}}, key)
	must.OK(s.t, err)
	hour := int32(3600)
	r := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), Username: requester,
		SignerName: certificatesv1.KubeAPIServerClientSignerName, ExpirationSeconds: &hour,
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature}}}
	r.APIVersion, r.Kind, r.Name = "certificates.k8s.io/v1", "CertificateSigningRequest", name // a watch tells the kind
	if change != nil {
		change(r)
	}
	s.Put(Requests, r)
}

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
	s.approve(&r)
	s.sign(&r, from, until)
	s.Put(Requests, &r)
}

// Signs has the cluster sign what is approved, for an hour, and approve whatever is
// filed if approves is set.
func (s *Server) Signs(approves bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.control = func(o Object) Object {
		var r certificatesv1.CertificateSigningRequest
		convert(s.t, o, &r)
		if approves && len(r.Status.Conditions) == 0 {
			s.approve(&r)
		}
		if len(r.Status.Conditions) > 0 && r.Status.Conditions[0].Type == certificatesv1.CertificateApproved {
			s.sign(&r, time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
		}
		convert(s.t, r, &o)
		return o
	}
}

func (s *Server) approve(r *certificatesv1.CertificateSigningRequest) {
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved,
		Status: "True", Reason: "Test"}}
}

func (s *Server) sign(r *certificatesv1.CertificateSigningRequest, from, until time.Time) {
	block, _ := pem.Decode(r.Spec.Request)
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	must.OK(s.t, err)
	der := certify(s.t, asked.Subject, asked.PublicKey, from, until)
	r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Deny denies a request for good.
func (s *Server) Deny(name, message string) {
	s.t.Helper()
	var r certificatesv1.CertificateSigningRequest
	if !s.Get(Requests, name, &r) {
		s.t.Fatalf("there is no request %s", name)
	}
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied,
		Status: "True", Message: message}}
	s.Put(Requests, &r)
}

// certify signs a client certificate by an authority that nobody knows.
func certify(t testing.TB, subject pkix.Name, key any, from, until time.Time) []byte {
	t.Helper()
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: subject, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template,
		&x509.Certificate{Subject: pkix.Name{CommonName: "kubernetes"}}, key, authority)
	must.OK(t, err)
	return der
}

// Issued is the certificate that was issued for a request, in PEM.
func (s *Server) Issued(name string) []byte {
	s.t.Helper()
	var r certificatesv1.CertificateSigningRequest
	if !s.Get(Requests, name, &r) || len(r.Status.Certificate) == 0 {
		s.t.Fatalf("there is no certificate for %s", name)
	}
	return r.Status.Certificate
}
