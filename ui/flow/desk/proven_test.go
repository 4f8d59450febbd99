package desk

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// maker makes a device that attests.
type maker struct {
	t            *testing.T
	root, device *x509.Certificate
	key          *ecdsa.PrivateKey
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newMaker(t *testing.T) *maker {
	root := newKey(t)
	m := &maker{t: t, key: newKey(t)}
	ca := func(name string) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true}
	}
	m.root = m.sign(ca("Test Root"), ca("Test Root"), root, root)
	m.device = m.sign(ca("Test Device"), m.root, m.key, root)
	return m
}

func (m *maker) sign(c, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	m.t.Helper()
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	if err != nil {
		m.t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// attest states that key was generated in the token with that serial number, which must be small.
func (m *maker) attest(key *ecdsa.PrivateKey, serial byte) hsm.Attestation {
	extension := func(last int, value ...byte) pkix.Extension {
		return pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 41482, 3, last}, Value: value}
	}
	c := &x509.Certificate{Subject: pkix.Name{CommonName: "YubiKey PIV Attestation 9a"},
		ExtraExtensions: []pkix.Extension{extension(3, 5, 7, 1), extension(7, 2, 1, serial), extension(8, 2, 2)}}
	return hsm.Attestation{Statement: m.sign(c, m.device, key, m.key).Raw, Intermediate: m.device.Raw}
}

// TestProven: together are approved renewals with attested keys and what is filed with a ticket for the
// token that it names, and nothing that has a reason to look closer.
func TestProven(t *testing.T) {
	w := desk(t)
	for _, name := range w.Server.Names(flowtest.Requests) {
		w.Server.Delete(flowtest.Requests, name)
	}
	m := newMaker(t)
	file := func(name, requester string, groups, asks []string, attested bool) {
		t.Helper()
		key := newKey(t)
		var o csr.RequestOptions
		if attested {
			o.ExtraExtensions = attest.Extensions(m.attest(key, 7))
		}
		user := requester
		if strings.HasPrefix(requester, bootstraptoken.UserPrefix) {
			user = "amy"
		}
		pkcs10, err := csr.NewRequest(key, csr.Subject{User: user, Groups: asks}, o)
		if err != nil {
			t.Fatal(err)
		}
		w.Server.File(name, requester, user, nil, func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.Request, r.Spec.Groups, r.Spec.Usages = pkcs10, groups, csr.ClientUsages(key.Public())
		})
	}
	dev := []string{"dev", "system:authenticated"}
	file("renews", "jane", dev, []string{"dev"}, true)
	file("unproven", "jane", dev, []string{"dev"}, false)
	file("more", "jane", dev, []string{"dev", "ops"}, true)
	file("glass", "jane", append(dev, "kubehsm:break-glass"), []string{"kubehsm:break-glass"}, true)
	file("own", "admin", dev, []string{"dev"}, true) // of who approves
	terms := func(serial string) []string {
		return ticket.Terms{User: "amy", Lifetime: time.Hour, Serial: serial}.TokenGroups()
	}
	file("ticket", bootstraptoken.UserPrefix+"aaaaaa", terms("7"), nil, true)
	file("other-token", bootstraptoken.UserPrefix+"bbbbbb", terms("8"), nil, true)
	file("no-token", bootstraptoken.UserPrefix+"cccccc", terms(""), nil, true)

	approvals, roots := NewApprovals(w.Env), []*x509.Certificate{m.root}
	if none, left, err := approvals.Proven(t.Context(), "", nil); err != nil || len(none) != 0 || left != 8 {
		t.Errorf("with Yubico's roots: %d proven, %d left, %v", len(none), left, err)
	}
	proven, left, err := approvals.Proven(t.Context(), "", roots)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range proven {
		names = append(names, v.Name)
	}
	if got := fmt.Sprint(names, left); got != "[own renews ticket] 5" {
		t.Errorf("proven and left: %s", got)
	}
	done, err := approvals.ApproveProven(t.Context(), "", proven, request.DecideOptions{}, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := ProvenErr(done); err == nil || !strings.HasPrefix(err.Error(), "1 of 3 requests") {
		t.Errorf("the error is %v", err)
	}
	for _, p := range done {
		var r certificatesv1.CertificateSigningRequest
		w.Server.Get(flowtest.Requests, p.Request, &r)
		pending := csr.StateOf(&r).State == csr.Pending
		if own := p.Request == "own"; own != (p.Problem != "") || own != pending {
			t.Errorf("%s: pending %t, %q", p.Request, pending, p.Problem)
		}
		if ticketed := p.Request == "ticket"; ticketed != (len(p.Notes) > 0) { // nobody signs here
			t.Errorf("%s: notes %q", p.Request, p.Notes)
		}
	}
}
