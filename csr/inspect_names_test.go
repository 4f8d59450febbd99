package csr_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"slices"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/test/must"
)

// No name is asked for behind an approver's back, of whatever kind it is.
func TestAlternativeNames(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	names, err := asn1.Marshal([]asn1.RawValue{
		{Class: asn1.ClassContextSpecific, Tag: 2, Bytes: []byte("a.example")},
		{Class: asn1.ClassContextSpecific, Tag: 8, Bytes: []byte{0x2a, 3}}, // a registered ID
	})
	must.OK(t, err)
	san := asn1.ObjectIdentifier{2, 5, 29, 17}
	for what, tc := range map[string]struct {
		template x509.CertificateRequest
		want     []string
	}{
		"none": {},
		"all kinds": {x509.CertificateRequest{DNSNames: []string{"a.example"}, EmailAddresses: []string{"a@b.example"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)},
			URIs: []*url.URL{{Scheme: "spiffe", Host: "a"}}},
			[]string{"DNS:a.example", "email:a@b.example", "IP:10.0.0.1", "URI:spiffe://a"}},
		"another kind": {x509.CertificateRequest{ExtraExtensions: []pkix.Extension{{Id: san, Value: names}}}, []string{"DNS:a.example", "1 of other kinds"}},
	} {
		der, err := x509.CreateCertificateRequest(rand.Reader, &tc.template, key)
		must.OK(t, err)
		info, err := csr.InspectRequest(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
		must.OK(t, err)
		if got := info.AlternativeNames(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", what, got, tc.want)
		}
	}
}
