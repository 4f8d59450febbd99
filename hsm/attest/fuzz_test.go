package attest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

// node is a DER value with what is in it.
type node struct {
	tag  byte // X.509 needs one-byte tags only
	body []byte
	kids []*node // children of a constructed value
}

// parseDER returns nil for what is no DER of one-byte tags.
func parseDER(b []byte) (all []*node) {
	for len(b) > 0 {
		var v asn1.RawValue
		rest, err := asn1.Unmarshal(b, &v)
		if err != nil || v.Tag > 30 {
			return nil
		}
		n := &node{tag: b[0], body: v.Bytes}
		if v.IsCompound {
			if n.kids = parseDER(v.Bytes); n.kids == nil && len(v.Bytes) > 0 {
				return nil
			}
		}
		all, b = append(all, n), rest
	}
	return all
}

func (n *node) encode() []byte {
	body := n.body
	if n.kids != nil {
		body = nil
		for _, k := range n.kids {
			body = append(body, k.encode()...)
		}
	}
	head := []byte{n.tag}
	switch size := len(body); {
	case size < 0x80:
		head = append(head, byte(size))
	case size < 0x100:
		head = append(head, 0x81, byte(size))
	default:
		head = append(head, 0x82, byte(size>>8), byte(size))
	}
	return append(head, body...)
}

func (n *node) clone() *node {
	c := &node{tag: n.tag, body: bytes.Clone(n.body)}
	for _, k := range n.kids {
		c.kids = append(c.kids, k.clone())
	}
	return c
}

// under are n's kids, their kids, and so on, with where each is.
func (n *node) under() (all []*node) {
	for _, k := range n.kids {
		all = append(append(all, k), k.under()...)
	}
	return all
}

func (n *node) parentOf(kid *node) (*node, int) {
	if i := slices.Index(n.kids, kid); i >= 0 {
		return n, i
	}
	for _, k := range n.kids {
		if p, i := k.parentOf(kid); p != nil {
			return p, i
		}
	}
	return nil, 0
}

// recipe is what the fuzzer says to do; where it ends there are zeros.
type recipe struct{ rest []byte }

func (r *recipe) below(n int) int {
	if len(r.rest) == 0 {
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return int(b) % n
}

func (r *recipe) bytes(n int) []byte {
	out := make([]byte, n)
	r.rest = r.rest[copy(out, r.rest):]
	return out
}

// change makes one change somewhere below n; from is where grafts come from.
func (r *recipe) change(n, from *node) {
	all := n.under()
	if len(all) == 0 {
		return
	}
	at := all[(r.below(256)<<8|r.below(256))%len(all)]
	parent, i := n.parentOf(at)
	switch r.below(7) {
	case 0:
		at.body, at.kids = r.bytes(r.below(24)), nil
	case 1:
		parent.kids = slices.Delete(parent.kids, i, i+1)
	case 2:
		parent.kids = slices.Insert(parent.kids, i, at.clone())
	case 3:
		j := r.below(len(parent.kids))
		parent.kids[i], parent.kids[j] = parent.kids[j], parent.kids[i]
	case 4:
		grafts := from.under()
		parent.kids[i] = grafts[(r.below(256)<<8|r.below(256))%len(grafts)].clone()
	case 5:
		at.tag ^= 1 << r.below(8)
	case 6:
		at.body, at.kids = bytes.Repeat(at.body, r.below(3)), nil
	}
}

// The signers of a made-up certificate.
const (
	byDevice = iota
	byRoot
	byStranger
	unsigned // the old signature stays
)

// forge are the certificates and keys that attestations are made up from. They
// are the same in every run.
type forge struct {
	now     time.Time
	keys    [3]*ecdsa.PrivateKey // by signer
	root    *x509.Certificate
	device  []byte
	models  [][]byte // certificates that mutants are made from
	signers []int    // signers of the models
	genuine []hsm.Attestation
}

func newForge(f *testing.F) *forge {
	g := &forge{now: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}
	for i := range g.keys {
		key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), append(make([]byte, 31), byte(i+1)))
		must.OK(f, err)
		g.keys[i] = key
	}
	create := func(template, parent *x509.Certificate, key, by int) *x509.Certificate {
		template.NotBefore, template.NotAfter = g.now.AddDate(-1, 0, 0), g.now.AddDate(9, 0, 0)
		if parent == nil {
			parent = template
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, g.keys[key].Public(), g.keys[by])
		must.OK(f, err)
		cert, err := x509.ParseCertificate(der)
		must.OK(f, err)
		return cert
	}
	ca := func(name string) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
			BasicConstraintsValid: true, IsCA: true}
	}
	g.root = create(ca("Test Root"), nil, byRoot, byRoot)
	device := create(ca("Test Device"), g.root, byDevice, byRoot)
	g.device = device.Raw
	g.signers = []int{byDevice, byRoot, byRoot}
	g.models = [][]byte{create(statement(), device, byStranger, byDevice).Raw, device.Raw, g.root.Raw}
	for _, name := range []string{"yubikey5.pem", "yubikey4.pem"} {
		a := load(f, name)
		g.genuine = append(g.genuine, a)
		g.models = append(g.models, a.Statement, a.Intermediate)
		g.signers = append(g.signers, byDevice, unsigned) // by its own device; and by nobody here
	}
	return g
}

// made is a certificate and who signed it.
type made struct {
	der []byte
	by  int
}

// make makes a certificate after a model: changed, for another key, under another
// issuer, signed anew.
func (g *forge) make(r *recipe, model int) made {
	model = (model + r.below(len(g.models))) % len(g.models)
	cert := parseDER(g.models[model])[0]
	other := parseDER(g.models[r.below(len(g.models))])[0]
	tbs := cert.kids[0]
	m := made{by: r.below(4)}
	if r.below(2) == 1 { // tbs: version, serial, algorithm, issuer, validity, subject, key, extensions
		tbs.kids[3] = other.kids[0].kids[5].clone()
	}
	if r.below(2) == 1 {
		tbs.kids[6] = other.kids[0].kids[6].clone()
	}
	for range r.below(5) {
		r.change(tbs, other)
	}
	if m.by == unsigned {
		m.der = cert.encode()
		if bytes.Equal(m.der, g.models[model]) { // unchanged
			m.by = g.signers[model]
		}
		return m
	}
	algorithm := parseDER(g.device)[0].kids[1] // ecdsa-with-SHA256
	for i, k := range tbs.kids {
		if i == 2 && k.tag == algorithm.tag {
			tbs.kids[i] = algorithm
		}
	}
	sum := sha256.Sum256(tbs.encode())
	sig, err := ecdsa.SignASN1(rand.Reader, g.keys[m.by], sum[:])
	if err != nil {
		panic(err)
	}
	m.der = (&node{tag: 0x30, kids: []*node{tbs, algorithm, {tag: 0x03, body: append([]byte{0}, sig...)}}}).encode()
	return m
}

// FuzzVerify makes attestations up, out of genuine ones and of those of a maker
// of our own, signed by whoever could have a hand in them. None passes for
// Yubico's; for the maker's own only what its device, or the maker, has signed.
func FuzzVerify(f *testing.F) {
	g := newForge(f)
	f.Add([]byte{})                                   // unchanged
	f.Add([]byte{0, 0, 2})                            // signed by a stranger
	f.Add([]byte{3, 0, 0, 0, 0, 0, 1})                // Yubico's statement, signed by the maker's device
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0, 9, 0, 9})       // something replaced
	f.Add([]byte{0, 0, 0, 0, 0, 0, 3, 0, 0, 1, 1, 1}) // another device, signed by the root
	f.Add([]byte{0, 0, 0, 0, 0, 0, 1})                // under the root itself
	f.Add([]byte{0, 0, 0, 0, 0, 2, 1, 4, 4, 0, 3, 0, 1})
	if _, err := g.verify(hsm.Attestation{Statement: g.models[0], Intermediate: g.device}); err != nil {
		f.Fatalf("the maker's own: %v", err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &recipe{b}
		statement := g.make(r, 0)
		device := made{g.device, byRoot}
		switch r.below(4) {
		case 1:
			device = made{g.root.Raw, byRoot}
		case 2:
			device = made{g.genuine[r.below(2)].Intermediate, unsigned}
		case 3:
			device = g.make(r, 1)
		}
		a := hsm.Attestation{Statement: statement.der, Intermediate: device.der}
		g.check(t, a, statement.by, device.by)
	})
}

func (g *forge) verify(a hsm.Attestation) (Statement, error) {
	return Verifier{Roots: []*x509.Certificate{g.root}, Now: g.now}.Verify(a, nil)
}

func (g *forge) check(t *testing.T, a hsm.Attestation, statementBy, deviceBy int) {
	s, err := Verifier{Now: g.now}.Verify(a, nil)
	if err == nil && !slices.ContainsFunc(g.genuine,
		func(real hsm.Attestation) bool { return bytes.Equal(real.Statement, a.Statement) }) {
		t.Fatalf("a forged attestation verifies: %s", s)
	}
	own, err := g.verify(a)
	if text := own.String(); strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
		t.Fatalf("it says %q", text)
	}
	if back, err := FromExtensions(Extensions(a)); err != nil || !bytes.Equal(back.Statement, a.Statement) ||
		!bytes.Equal(back.Intermediate, a.Intermediate) {
		t.Fatalf("not what was put into a request: %v", err)
	}
	if err != nil {
		if own.Root != "" {
			t.Fatalf("not verified, but traced to %q", own.Root)
		}
		return
	}
	device, perr := x509.ParseCertificate(a.Intermediate)
	if perr != nil {
		t.Fatal(perr)
	}
	_, told := extension(device, oidPolicy)
	if statementBy > byRoot || deviceBy != byRoot || own.Root != "Test Root" || told ||
		strings.HasPrefix(device.Subject.CommonName, subjectPrefix) {
		t.Fatalf("statement signed by %d, device by %d, %q as the device, traced to %q", statementBy, deviceBy,
			device.Subject.CommonName, own.Root)
	}
	_, err = Verifier{Roots: []*x509.Certificate{g.root}, Now: g.now}.Verify(a, differs(t, own.Key))
	if !errors.Is(err, ErrOtherKey) {
		t.Fatalf("for another key: %v", err)
	}
}

// differs is a key that is not the one given.
func differs(t *testing.T, key any) any {
	t.Helper()
	other, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), append(make([]byte, 31), 99))
	must.OK(t, err)
	if hsm.SameKey(key, other.Public()) {
		t.Fatal("the key is the one to differ from")
	}
	return other.Public()
}
