package applet

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestCompressedCertificate: as other tools may have written it.
func TestCompressedCertificate(t *testing.T) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, k.Public(), k)
	must.OK(t, err)
	cert, err := x509.ParseCertificate(der)
	must.OK(t, err)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err = w.Write(cert.Raw)
	must.OK(t, err)
	must.OK(t, w.Close())
	got, err := decodeCertificate(append(tlv(0x70, z.Bytes()), tlv(0x71, []byte{1})...))
	must.OK(t, err)
	if !got.Equal(cert) {
		t.Error("another certificate")
	}
}

// FuzzTLV: what is read is what would be written, and nothing is read beyond the end.
func FuzzTLV(f *testing.F) {
	f.Add(tlv(0x53, tlv(0x70, []byte("x")), tlv(0x7f49, make([]byte, 300))))
	f.Add([]byte{0x5f, 0xff, 0x82, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parseTLV(b)
		if err != nil {
			return
		}
		n := 0
		var out []byte
		for _, o := range all {
			n += len(o.value)
			if len(o.value) > 0xffff || o.tag == 0 {
				return // an object that we did not write
			}
			out = append(out, tlv(o.tag, o.value)...)
		}
		if n > len(b) {
			t.Fatalf("%d bytes of values out of %d", n, len(b))
		}
		again, err := parseTLV(out)
		if err != nil || len(again) != len(all) {
			t.Fatalf("%x was written as %x: %v", b, out, err)
		}
		for i := range all {
			if again[i].tag != all[i].tag || !bytes.Equal(again[i].value, all[i].value) {
				t.Fatalf("object %d changed", i)
			}
		}
	})
}

// FuzzObjects: the parsers of everything that a card stores.
func FuzzObjects(f *testing.F) {
	f.Add([]byte{0x01, 1, 0x11, 0x02, 2, 2, 1, 0x03, 1, 1, 0x04, 3, 0x86, 1, 4})
	f.Add(tlv(0x70, []byte{0x1f, 0x8b, 8}))
	f.Add([]byte{0x80, 3, 0x81, 1, 2})
	f.Add(append([]byte{0x88, 26, 0x89, 24}, make([]byte, 24)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parseMetadata(b); err == nil {
			if k, err := m.key(); err == nil && k.Public == nil {
				t.Fatal("a key without a public key")
			}
		}
		if c, err := decodeCertificate(b); err == nil && c == nil {
			t.Fatal("no certificate and no error")
		}
		if _, err := attestedKey(b); err == nil && len(b) < 100 {
			t.Fatal("an attestation of nothing")
		}
		for _, alg := range []byte{algP256, algP384, algEd25519, algRSA2048, 0} {
			if pub, err := parsePublic(alg, b); err == nil && pub == nil {
				t.Fatal("no key and no error")
			}
		}
		flags := parsePivman(b)
		if got := parsePivman(flags.with(true)); !got.stored {
			t.Fatal("the flag was not kept")
		}
		key := hsm.NewSecret(bytes.Repeat([]byte{7}, 32))
		next := hsm.NewSecret(bytes.Repeat([]byte{8}, 24))
		both := protect(b, key, next)
		if !bytes.Equal(parseProtected(both, tagProtectKey).Bytes(), key.Bytes()) ||
			!bytes.Equal(parseProtected(both, tagNextKey).Bytes(), next.Bytes()) {
			t.Fatal("the protected keys were not kept")
		}
		if one := protect(both, next, nil); !bytes.Equal(parseProtected(one, tagProtectKey).Bytes(), next.Bytes()) ||
			parseProtected(one, tagNextKey) != nil {
			t.Fatal("the next key was not taken over")
		}
	})
}
