package csr

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubehsm/kubehsm/test/must"
)

var judgedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// authority signs test certificates.
type authority struct {
	key  crypto.Signer
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	a.cert = a.sign(t, a.key.Public(), &x509.Certificate{
		Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: judgedAt.AddDate(-1, 0, 0), NotAfter: judgedAt.AddDate(1, 0, 0),
	})
	return a
}

func (a *authority) sign(t *testing.T, pub crypto.PublicKey, tmpl *x509.Certificate) *x509.Certificate {
	t.Helper()
	tmpl.SerialNumber = big.NewInt(1)
	parent := a.cert
	if parent == nil {
		parent = tmpl
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, pub, a.key)
	must.OK(t, err)
	cert, err := x509.ParseCertificate(der)
	must.OK(t, err)
	return cert
}

func leafFor(s Subject) *x509.Certificate {
	return &x509.Certificate{
		Subject:   s.Name(),
		NotBefore: judgedAt.Add(-5 * time.Minute), NotAfter: judgedAt.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

func asPEM(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: c.Raw})...)
	}
	return out
}

func issuedObject(t *testing.T, request, cert []byte, asked time.Duration) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	obj, err := Spec{Name: "a", Request: request, Expiration: asked}.Object()
	must.OK(t, err)
	obj.CreationTimestamp = metav1.NewTime(judgedAt.Add(-time.Hour))
	obj.Status.Certificate = cert
	obj.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(judgedAt),
	}}
	return obj
}

func TestCollect(t *testing.T) {
	ca, key := newAuthority(t), newKey(t)
	jane := Subject{User: "jane", Groups: []string{"dev", "ops"}}
	request := newPEM(t, key, jane)
	leaf := ca.sign(t, key.Public(), leafFor(Subject{User: "jane", Groups: []string{"ops", "dev"}}))
	data := append([]byte("issued by the signer\n"), asPEM(leaf)...)
	data = append(append(data, "\nsubject: ca\n"...), asPEM(ca.cert)...)
	data = append(data, "end\n"...)
	cert, err := Collect(issuedObject(t, request, data, time.Hour),
		Want{PublicKey: key.Public(), Request: request, Now: judgedAt})
	must.OK(t, err)
	if !cert.Leaf.Equal(leaf) || len(cert.Chain) != 1 || string(cert.PEM) != string(asPEM(leaf, ca.cert)) ||
		cert.Shortfall != 0 || len(cert.Notes) != 0 || !cert.Subject().Equal(jane) {
		t.Errorf("got %+v", cert)
	}
}

func TestCollectRefuses(t *testing.T) {
	ca, key, other := newAuthority(t), newKey(t), newKey(t)
	jane := Subject{User: "jane", Groups: []string{"dev"}}
	request := newPEM(t, key, jane)
	edit := func(f func(*x509.Certificate)) *x509.Certificate {
		c := leafFor(jane)
		f(c)
		return c
	}
	for name, tt := range map[string]struct {
		pub  crypto.PublicKey
		tmpl *x509.Certificate
		want Want
		says string
	}{
		"another key":        {other.Public(), leafFor(jane), Want{}, "another key than the request"},
		"the token's key":    {key.Public(), leafFor(jane), Want{PublicKey: other.Public()}, "another key than the token's"},
		"another request":    {key.Public(), leafFor(jane), Want{Request: newPEM(t, key, Subject{User: "john"})}, "not the one that was filed"},
		"another user":       {key.Public(), leafFor(Subject{User: "john", Groups: []string{"dev"}}), Want{}, `"john"`},
		"more groups":        {key.Public(), leafFor(Subject{User: "jane", Groups: []string{"dev", "root"}}), Want{}, `"root"`},
		"fewer groups":       {key.Public(), leafFor(Subject{User: "jane"}), Want{}, `"dev"`},
		"server certificate": {key.Public(), edit(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), Want{}, "client authentication"},
		"no usage":           {key.Public(), edit(func(c *x509.Certificate) { c.ExtKeyUsage = nil }), Want{}, "client authentication"},
		"expired":            {key.Public(), edit(func(c *x509.Certificate) { c.NotAfter = judgedAt.Add(-time.Minute) }), Want{}, "expired on 2026-03-01T11:59:00Z"},
		"upside down":        {key.Public(), edit(func(c *x509.Certificate) { c.NotBefore = judgedAt.Add(2 * time.Hour) }), Want{}, "before it begins"},
		"CA":                 {key.Public(), edit(func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }), Want{}, "authority"},
	} {
		tt.want.Now = judgedAt
		cert := ca.sign(t, tt.pub, tt.tmpl)
		_, err := Collect(issuedObject(t, request, asPEM(cert), 0), tt.want)
		var e *CertificateError
		if !errors.As(err, &e) || !errors.Is(err, ErrWrongCertificate) || !strings.Contains(err.Error(), tt.says) ||
			e.Hint() == "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestCollectShortfall(t *testing.T) {
	ca, key := newAuthority(t), newKey(t)
	request := newPEM(t, key, Subject{User: "jane"})
	for _, tt := range []struct {
		asked, got, want time.Duration
	}{
		{0, time.Hour, 0},
		{24 * time.Hour, time.Hour, 23 * time.Hour},
		{24 * time.Hour, 24*time.Hour - 5*time.Minute, 0}, // backdating taken off the end
		{10 * time.Minute, 5 * time.Minute, 5 * time.Minute},
		{time.Hour, 2 * time.Hour, 0},
	} {
		leaf := leafFor(Subject{User: "jane"})
		leaf.NotAfter = judgedAt.Add(tt.got)
		obj := issuedObject(t, request, asPEM(ca.sign(t, key.Public(), leaf)), tt.asked)
		cert, err := Collect(obj, Want{Now: judgedAt})
		must.OK(t, err)
		if cert.Shortfall != tt.want || (len(cert.Notes) > 0) != (tt.want > 0) {
			t.Errorf("asked %v, got %v: shortfall %v, notes %q", tt.asked, tt.got, cert.Shortfall, cert.Notes)
		}
	}
}

func TestCollectNotes(t *testing.T) {
	ca, key := newAuthority(t), newKey(t)
	leaf := leafFor(Subject{User: "jane"})
	leaf.NotBefore = judgedAt.Add(time.Minute)
	obj := issuedObject(t, newPEM(t, key, Subject{User: "jane"}),
		asPEM(ca.sign(t, key.Public(), leaf), newAuthority(t).cert), 0)
	cert, err := Collect(obj, Want{Now: judgedAt})
	if err != nil || len(cert.Notes) != 2 {
		t.Fatalf("a slow clock and a foreign chain: %+v, %v", cert, err)
	}
}

func TestCollectNothing(t *testing.T) {
	obj := pending("a")
	if _, err := Collect(obj, Want{}); err == nil || !strings.Contains(err.Error(), "it is pending") {
		t.Errorf("got %v", err)
	}
	set(certificatesv1.CertificateDenied, "No", "")(obj)
	var denied *DeniedError
	if _, err := Collect(obj, Want{}); !errors.As(err, &denied) {
		t.Errorf("got %v", err)
	}
}

func TestParseCertificateRefuses(t *testing.T) {
	for name, data := range map[string]string{
		"nothing":  "",
		"text":     "hello\n",
		"junk":     "-----BEGIN CERTIFICATE-----\nanVuaw==\n-----END CERTIFICATE-----\n",
		"key":      "-----BEGIN PRIVATE KEY-----\nanVuaw==\n-----END PRIVATE KEY-----\n",
		"cut over": "-----BEGIN CERTIFICATE-----\nanVuaw==\n",
	} {
		if _, err := ParseCertificate([]byte(data)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestStateOf(t *testing.T) {
	no := func(kind certificatesv1.RequestConditionType) func(*certificatesv1.CertificateSigningRequest) {
		return func(o *certificatesv1.CertificateSigningRequest) {
			set(kind, "R", "")(o)
			o.Status.Conditions[len(o.Status.Conditions)-1].Status = corev1.ConditionFalse
		}
	}
	deny := set(certificatesv1.CertificateDenied, "D", "")
	fail := set(certificatesv1.CertificateFailed, "F", "")
	type edits []func(*certificatesv1.CertificateSigningRequest)
	for _, tt := range []struct {
		edits  edits
		want   State
		reason string
	}{
		{nil, Pending, ""},
		{edits{no(certificatesv1.CertificateApproved)}, Pending, ""},
		{edits{approve}, Approved, "Ok"},
		{edits{approve, issue}, Issued, "Ok"},
		{edits{approve, fail}, Failed, "F"},
		{edits{fail, approve, issue}, Issued, "Ok"},
		{edits{deny}, Denied, "D"},
		{edits{deny, issue}, Denied, "D"},
	} {
		obj := pending("a")
		for _, e := range tt.edits {
			e(obj)
		}
		s := StateOf(obj)
		if s.State != tt.want || s.Reason != tt.reason || s.Object != obj {
			t.Errorf("got %v %q, want %v", s.State, s.Reason, tt.want)
		}
		if (s.Err() != nil) != (tt.want == Denied || tt.want == Failed) {
			t.Errorf("%v has error %v", s.State, s.Err())
		}
	}
}
