package csr

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

// FuzzInspectSigned: of a request that its own key has signed, whatever is in it, an
// approver is told the key, who it is for as Kubernetes reads that, each alternative name
// or that there is one, and whether it asks to be an authority.
func FuzzInspectSigned(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(f, err)
	subject := func(n pkix.Name) []byte {
		der, err := asn1.Marshal(n.ToRDNSequence())
		must.OK(f, err)
		return der
	}
	names := func(all ...asn1.RawValue) []byte {
		der, err := asn1.Marshal(all)
		must.OK(f, err)
		return der
	}
	dns := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 2, Bytes: []byte("a.example")}
	other := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 8, Bytes: []byte{0x2a}}
	f.Add(subject(pkix.Name{CommonName: "jane", Organization: []string{"dev"}}), names(dns, other), []byte{0x30, 3, 1, 1, 0xff})
	f.Add(subject(pkix.Name{CommonName: "j\u0430ne\x1b[2J", Country: []string{"x"}}), names(), []byte{0x30, 0})
	f.Add([]byte{0x30, 0}, []byte{0x30, 1}, []byte{})
	f.Fuzz(func(t *testing.T, subject, alternative, constraints []byte) {
		template := &x509.CertificateRequest{RawSubject: subject, ExtraExtensions: []pkix.Extension{
			{Id: oidAlternativeNames, Value: alternative}, {Id: oidBasicConstraints, Value: constraints}}}
		der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
		if err != nil {
			return
		}
		info, err := InspectRequest(pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: der}))
		if err != nil {
			return
		}
		if hash, err := SPKIHash(key.Public()); err != nil || info.SPKIHash != hash || info.KeyAlgorithm != "ECDSA P-256" {
			t.Errorf("%s %s, %v", info.KeyAlgorithm, info.SPKIHash, err)
		}
		req, err := x509.ParseCertificateRequest(der) // The API server and its signers read it like this.
		must.OK(t, err)
		if info.Subject.User != req.Subject.CommonName || !slices.Equal(info.Subject.Groups, req.Subject.Organization) {
			t.Errorf("%+v of %+v", info.Subject, req.Subject)
		}
		told := 0
		for _, n := range info.AlternativeNames() {
			var more int
			if _, err := fmt.Sscanf(n, "%d of other kinds", &more); err == nil {
				told += more
				continue
			}
			told++
		}
		var all []asn1.RawValue
		if rest, err := asn1.Unmarshal(alternative, &all); err == nil && len(rest) == 0 && told != len(all) {
			t.Errorf("%d alternative names are told of, %d asked for: %q", told, len(all), info.AlternativeNames())
		}
		authority := strings.Contains(strings.Join(info.Oddities, "\n"), "certificate authority")
		if bytes.HasPrefix(constraints, []byte{0x30, 3, 1, 1, 0xff}) && !authority {
			t.Error("it asks to be an authority, and nobody is told")
		}
		for _, odd := range info.Oddities {
			if strings.ContainsFunc(odd, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x202e }) {
				t.Errorf("told is %q", odd)
			}
		}
	})
}
