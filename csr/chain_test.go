package csr

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
)

// certified is a certificate with its key.
type certified struct {
	*x509.Certificate
	key *ecdsa.PrivateKey
}

// certify certifies name by an issuer, or by itself. The issuer's certificate is fetched at the addresses.
func certify(t *testing.T, name string, by *certified, addresses ...string) certified {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, IssuingCertificateURL: addresses}
	parent := certified{template, key}
	if by != nil {
		parent = *by
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.Certificate, key.Public(), parent.key)
	must.OK(t, err)
	cert, err := x509.ParseCertificate(der)
	must.OK(t, err)
	return certified{cert, key}
}

func chainOf(c *Certificate) string {
	var names []string
	for _, x := range c.Chain {
		names = append(names, x.Subject.CommonName)
	}
	return strings.Join(names, ",")
}

// TestWithChain: a chain is in order, whatever the order of what there is, has no root, and
// none that has the issuer's name alone.
func TestWithChain(t *testing.T) {
	root := certify(t, "root", nil)
	upper := certify(t, "upper", &root)
	lower := certify(t, "lower", &upper)
	leaf := certify(t, "leaf", &lower)
	impostor := certify(t, "lower", &root)
	others := []*x509.Certificate{
		root.Certificate,
		impostor.Certificate,
		upper.Certificate,
		leaf.Certificate,
		lower.Certificate,
	}
	c := WithChain(leaf.Certificate, others)
	if got := chainOf(c); got != "lower,upper" {
		t.Errorf("the chain is %s", got)
	}
	if back, err := ParseCertificate(c.PEM); err != nil || chainOf(back) != "lower,upper" ||
		!back.Leaf.Equal(leaf.Certificate) {
		t.Errorf("its PEM has %v, %v", back, err)
	}
	if got := chainOf(WithChain(leaf.Certificate, nil)); got != "" {
		t.Errorf("of nothing comes %s", got)
	}
	if got := chainOf(WithChain(root.Certificate, others)); got != "" {
		t.Errorf("a root has the chain %s", got)
	}
}

// TestFetchChain: missing issuers come from the addresses in the certificates, and count only
// if they have signed what names them.
func TestFetchChain(t *testing.T) {
	served := map[string][]byte{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := served[r.URL.Path]; !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(served[r.URL.Path]) // a client that has gone needs none
	}))
	defer s.Close()
	root := certify(t, "root", nil)
	upper := certify(t, "upper", &root, s.URL+"/root")
	lower := certify(t, "lower", &upper, s.URL+"/gone", s.URL+"/upper")
	leaf := certify(t, "leaf", &lower, s.URL+"/lower")
	impostor := certify(t, "lower", &root)
	served["/root"], served["/upper"], served["/lower"] = root.Raw, upper.Raw, lower.Raw
	fetch := func() (*Certificate, error) { return FetchChain(t.Context(), WithChain(leaf.Certificate, nil), nil) }
	if c, err := fetch(); err != nil || chainOf(c) != "lower,upper" {
		t.Errorf("%v, %v", c, err)
	}
	for name, body := range map[string][]byte{"another's": impostor.Raw, "no certificate": []byte("<html>"),
		"none": nil, "too long": make([]byte, maxIssuer+1)} {
		served["/lower"] = body
		if _, err := fetch(); err == nil || !strings.Contains(hint.Of(err), "--chain") {
			t.Errorf("%s: %v", name, err)
		}
	}
	served["/lower"] = lower.Raw
	unreachable := certify(t, "leaf", &lower, "http://127.0.0.1:1/lower")
	if _, err := FetchChain(t.Context(), WithChain(unreachable.Certificate, nil), nil); err == nil {
		t.Error("an address that nobody serves is fine")
	}
	known := []*x509.Certificate{lower.Certificate, upper.Certificate}
	c, err := FetchChain(t.Context(), WithChain(unreachable.Certificate, known), known)
	if err != nil || chainOf(c) != "lower,upper" {
		t.Errorf("what is known is fetched: %v, %v", c, err)
	}
}
