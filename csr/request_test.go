package csr

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

// opaque hides the private key's type, as a token does.
type opaque struct{ crypto.Signer }

func rsaKey(t *testing.T, bits int) crypto.Signer {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, bits)
	must.OK(t, err)
	return k
}

func ecKey(t *testing.T, c elliptic.Curve) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	must.OK(t, err)
	return k
}

func edKey(t *testing.T) crypto.Signer {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	must.OK(t, err)
	return k
}

func TestNewRequestPerKey(t *testing.T) {
	for _, tt := range []struct {
		key  crypto.Signer
		name string
		alg  x509.SignatureAlgorithm
	}{
		{ecKey(t, elliptic.P256()), "ECDSA P-256", x509.ECDSAWithSHA256},
		{ecKey(t, elliptic.P384()), "ECDSA P-384", x509.ECDSAWithSHA384},
		{ecKey(t, elliptic.P521()), "ECDSA P-521", x509.ECDSAWithSHA512},
		{rsaKey(t, 2048), "RSA 2048", x509.SHA256WithRSA},
		{edKey(t), "Ed25519", x509.PureEd25519},
	} {
		t.Run(tt.name, func(t *testing.T) {
			oid := asn1.ObjectIdentifier{1, 2, 3, 4}
			want := Subject{User: "jane@example.com", Groups: []string{"dev", "ops"}}
			data, err := NewRequest(opaque{tt.key}, want, RequestOptions{
				ExtraExtensions: []pkix.Extension{{Id: oid, Value: []byte{5, 0}}},
				DNSNames:        []string{"a.example"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)},
			})
			must.OK(t, err)
			info, err := InspectRequest(data)
			must.OK(t, err)
			hash, err := SPKIHash(tt.key.Public())
			must.OK(t, err)
			if !info.Subject.Equal(want) || info.KeyAlgorithm != tt.name || info.SPKIHash != hash || len(hash) != 64 {
				t.Errorf("got %+v", info)
			}
			if len(info.DNSNames) != 1 || len(info.IPAddresses) != 1 || len(info.Oddities) != 0 {
				t.Errorf("got %+v", info)
			}
			if !slices.ContainsFunc(info.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(oid) }) {
				t.Error("the extra extension is missing")
			}
			req, err := parseRequest(data)
			if err != nil || req.SignatureAlgorithm != tt.alg {
				t.Errorf("signature %v, %v", req.SignatureAlgorithm, err)
			}
		})
	}
}

type failing struct {
	crypto.Signer
	err error
}

func (f failing) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) { return nil, f.err }

// liar names one key and signs with another.
type liar struct {
	crypto.Signer
	pub crypto.PublicKey
}

func (l liar) Public() crypto.PublicKey { return l.pub }

func TestNewRequestRefuses(t *testing.T) {
	key := newKey(t)
	pulled := errors.New("the card was pulled")
	if _, err := NewRequest(failing{key, pulled}, Subject{User: "a"}, RequestOptions{}); !errors.Is(err, pulled) {
		t.Errorf("the signer's error is lost: %v", err)
	}
	if _, err := NewRequest(liar{key, newKey(t).Public()}, Subject{User: "a"}, RequestOptions{}); err == nil {
		t.Error("a signature by another key was accepted")
	}
	ext := []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}}, {Id: asn1.ObjectIdentifier{1, 2, 3}}}
	san := []pkix.Extension{{Id: oidAlternativeNames}}
	for name, tt := range map[string]struct {
		key     crypto.Signer
		subject Subject
		opts    RequestOptions
	}{
		"no key":              {nil, Subject{User: "a"}, RequestOptions{}},
		"short RSA":           {rsaKey(t, 1024), Subject{User: "a"}, RequestOptions{}},
		"P-224":               {ecKey(t, elliptic.P224()), Subject{User: "a"}, RequestOptions{}},
		"no user":             {key, Subject{}, RequestOptions{}},
		"control in user":     {key, Subject{User: "a\x1b[2J"}, RequestOptions{}},
		"bidi in user":        {key, Subject{User: "a\u202eb"}, RequestOptions{}},
		"space at the end":    {key, Subject{User: "a "}, RequestOptions{}},
		"not UTF-8":           {key, Subject{User: "a\xff"}, RequestOptions{}},
		"empty group":         {key, Subject{User: "a", Groups: []string{""}}, RequestOptions{}},
		"newline in group":    {key, Subject{User: "a", Groups: []string{"b\nc"}}, RequestOptions{}},
		"group twice":         {key, Subject{User: "a", Groups: []string{"b", "b"}}, RequestOptions{}},
		"system:masters":      {key, Subject{User: "a", Groups: []string{"system:masters"}}, RequestOptions{}},
		"extension twice":     {key, Subject{User: "a"}, RequestOptions{ExtraExtensions: ext}},
		"alternatives, twice": {key, Subject{User: "a"}, RequestOptions{ExtraExtensions: san, DNSNames: []string{"b"}}},
	} {
		var input *InputError
		if _, err := NewRequest(tt.key, tt.subject, tt.opts); !errors.As(err, &input) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := NewRequest(key, Subject{User: "a", Groups: []string{"system:masters"}},
		RequestOptions{SignerName: "example.com/own"}); err != nil {
		t.Errorf("system:masters is another signer's business: %v", err)
	}
}

// rawRequest makes what NewRequest refuses to make.
func rawRequest(t *testing.T, tmpl *x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, tmpl, newKey(t))
	must.OK(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: der})
}

func TestInspectOddities(t *testing.T) {
	ca, err := asn1.Marshal(struct{ IsCA bool }{true})
	must.OK(t, err)
	cn := func(v string) pkix.AttributeTypeAndValue {
		return pkix.AttributeTypeAndValue{Type: oidCommonName, Value: v}
	}
	for name, tt := range map[string]struct {
		tmpl x509.CertificateRequest
		want string
	}{
		"CA":             {x509.CertificateRequest{Subject: pkix.Name{CommonName: "a"}, ExtraExtensions: []pkix.Extension{{Id: oidBasicConstraints, Value: ca}}}, "certificate authority"},
		"unreadable CA":  {x509.CertificateRequest{Subject: pkix.Name{CommonName: "a"}, ExtraExtensions: []pkix.Extension{{Id: oidBasicConstraints, Value: []byte{1}}}}, "certificate authority"},
		"masters":        {x509.CertificateRequest{Subject: pkix.Name{CommonName: "a", Organization: []string{"system:masters"}}}, "bypasses"},
		"two names":      {x509.CertificateRequest{Subject: pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{cn("a"), cn("b")}}}, "2 common names"},
		"other part":     {x509.CertificateRequest{Subject: pkix.Name{CommonName: "a", Country: []string{"XX"}}}, "2.5.4.6"},
		"no user":        {x509.CertificateRequest{}, "user: is empty"},
		"escape in name": {x509.CertificateRequest{Subject: pkix.Name{CommonName: "a\x1b"}}, "control character"},
	} {
		info, err := InspectRequest(rawRequest(t, &tt.tmpl))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(info.Oddities) != 1 || !strings.Contains(info.Oddities[0], tt.want) {
			t.Errorf("%s: got %q", name, info.Oddities)
		}
	}
}

func TestInspectRefuses(t *testing.T) {
	good := newPEM(t, newKey(t), Subject{User: "a"})
	block, _ := pem.Decode(good)
	bad := slices.Clone(block.Bytes)
	bad[len(bad)-1] ^= 1
	if _, err := InspectRequest(pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: bad})); !errors.Is(err,
		ErrSignature) {
		t.Errorf("broken signature: %v", err)
	}
	for name, data := range map[string][]byte{
		"nothing":     nil,
		"no PEM":      []byte("hello"),
		"other block": pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: block.Bytes}),
		"two":         append(slices.Clone(good), good...),
		"junk":        pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: []byte("junk")}),
	} {
		if _, err := InspectRequest(data); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestBounds: a request that exceeds a bound is refused before the work that the bound spares: what is too large is not
// even decoded, and no signature is checked by a key that is too long.
func TestBounds(t *testing.T) {
	groups := make([]string, 30_000)
	for i := range groups {
		groups[i] = fmt.Sprintf("group-%05d", i)
	}
	named := func(n pkix.Name) []byte { return rawRequest(t, &x509.CertificateRequest{Subject: n}) }
	large := named(pkix.Name{CommonName: "a", Organization: groups})
	for name, tt := range map[string]struct {
		request []byte
		want    string
	}{
		"30,000 groups":               {large, "bytes"},
		"no PEM":                      {bytes.Repeat([]byte("x"), MaxRequest+1), "bytes"},
		"65 groups":                   {named(pkix.Name{CommonName: "a", Organization: groups[:MaxGroups+1]}), "65 groups"},
		"a long user":                 {named(pkix.Name{CommonName: strings.Repeat("ä", MaxName+1)}), "253 characters"},
		"a long group":                {named(pkix.Name{CommonName: "a", Organization: []string{strings.Repeat("g", MaxName+1)}}), "253 characters"},
		"RSA 8193":                    {unsigned(t, rsaOf(8193)), "8193 bits"},
		"RSA 32,768":                  {unsigned(t, rsaOf(32_768)), "32768 bits"},
		"RSA 262,144":                 {unsigned(t, rsaOf(262_144)), "bytes"},
		"a key that has another hash": {unsignedAs(t, newKey(t).Public(), withNull), "usual form"},
		"a kind unknown":              {unsigned(t, x25519Key(t)), "unknown kind"},
		"with a signature":            {append(large, newPEM(t, newKey(t), Subject{User: "a"})...), "bytes"},
	} {
		if _, err := InspectRequest(tt.request); !errors.Is(err, ErrBound) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, request := range map[string][]byte{
		"64 groups": named(pkix.Name{CommonName: strings.Repeat("ä", MaxName), Organization: groups[:MaxGroups]}),
		"RSA 8192":  unsigned(t, rsaOf(8192)),
	} {
		if _, err := InspectRequest(request); err != nil && !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// rsaOf is an RSA public key of so many bits, whose private key nobody knows.
func rsaOf(bits int) *rsa.PublicKey {
	n := new(big.Int).Lsh(big.NewInt(1), uint(bits)-1)
	return &rsa.PublicKey{N: n.Add(n, big.NewInt(1)), E: 65537}
}

func x25519Key(t *testing.T) crypto.PublicKey {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	must.OK(t, err)
	return key.PublicKey()
}

// unsigned is a request for key with a signature of the same size that proves nothing.
func unsigned(t *testing.T, key crypto.PublicKey) []byte {
	t.Helper()
	return unsignedAs(t, key, func(spki []byte) []byte { return spki })
}

// withNull is the same key with a NULL at its end, which Go reads.
func withNull(spki []byte) []byte {
	var all asn1.RawValue
	rest, err := asn1.Unmarshal(spki, &all)
	if err != nil || len(rest) > 0 {
		panic("not a key")
	}
	der, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: append(all.Bytes, asn1.NullBytes...)})
	if err != nil {
		panic(err)
	}
	return der
}

// unsignedAs is [unsigned] with what change makes of the key's form.
func unsignedAs(t *testing.T, key crypto.PublicKey, change func(spki []byte) []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(newPEM(t, rsaKey(t, 2048), Subject{User: "a"}))
	var request struct {
		Info struct {
			Version    int
			Subject    asn1.RawValue
			Key        asn1.RawValue
			Attributes []asn1.RawValue `asn1:"tag:0"`
		}
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	if _, err := asn1.Unmarshal(block.Bytes, &request); err != nil {
		t.Fatal(err)
	}
	spki, err := x509.MarshalPKIXPublicKey(key)
	must.OK(t, err)
	request.Info.Key = asn1.RawValue{FullBytes: change(spki)}
	if k, is := key.(*rsa.PublicKey); is {
		request.Signature = asn1.BitString{Bytes: k.N.Bytes(), BitLength: 8 * len(k.N.Bytes())}
	}
	der, err := asn1.Marshal(request)
	must.OK(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: der})
}

func FuzzInspectRequest(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		info, err := InspectRequest(data)
		if (info == nil) != (err != nil) {
			t.Fatalf("both or neither: %v, %v", info, err)
		}
	})
}
