package piv

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// scripted is a card that answers with what it was given, then with 6A82.
type scripted struct{ answers []byte }

func (c *scripted) transmit([]byte) ([]byte, error) {
	if len(c.answers) == 0 {
		return []byte{0x6a, 0x82}, nil
	}
	n := min(int(c.answers[0]), len(c.answers)-1)
	answer := c.answers[1 : 1+n]
	c.answers = c.answers[1+n:]
	return answer, nil
}

func (*scripted) end(bool) error { return nil }

// bench is a system with one such card.
type bench struct{ answers []byte }

func (bench) readers() ([]reader, error) { return []reader{{name: "fuzz", present: true}}, nil }

func (b bench) connect(context.Context, string, time.Duration) (card, error) {
	return &scripted{answers: append([]byte(nil), b.answers...)}, nil
}

func framed(answers ...[]byte) []byte {
	var out []byte
	for _, a := range answers {
		out = append(append(out, byte(len(a))), a...)
	}
	return out
}

// FuzzAnswers: no sequence of answers makes the driver crash, loop or sign.
func FuzzAnswers(f *testing.F) {
	ok := []byte{0x90, 0}
	f.Add(framed(ok, []byte{5, 7, 1, 0x90, 0}, []byte{0, 0, 0, 9, 0x90, 0}, []byte{1, 1, 0xff, 5, 1, 0, 6, 2, 3, 3, 0x90, 0}))
	f.Add(framed(ok, []byte{4, 3, 5, 0x90, 0}, []byte{0x61, 0xff}, []byte{0x6c, 4}, []byte{0x63, 0xc2}))
	f.Add(framed([]byte{0x6a, 0x82}))
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, answers []byte) {
		d := New(Options{})
		d.system = bench{answers}
		ctx := t.Context()
		l, err := d.List(ctx)
		if err != nil || len(l.Tokens)+len(l.Problems) != 1 {
			t.Fatalf("a reader is neither listed nor a problem: %+v, %v", l, err)
		}
		if len(l.Tokens) == 0 {
			return
		}
		tok := d.newToken(l.Tokens[0])
		tok.hold(hsm.NewSecret([]byte("123456")))
		_, _ = tok.AllSlots(ctx)
		_, _ = tok.Details(ctx)
		_, _ = tok.Attest(ctx, hsm.URI{Scheme: hsm.SchemePIV, Slot: "9a"})
		_, _ = tok.Generate(ctx, hsm.GenerateOptions{Slot: "9a", Overwrite: true}, nil)
		s := &signer{ctx: ctx, t: tok, slot: 0x9a, code: algP256, key: hsm.Key{Public: k.Public()}}
		if _, err := s.Sign(rand.Reader, make([]byte, 32), hash256{}); err == nil {
			t.Fatal("a card without the key made a signature")
		}
	})
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
				return // not written by us
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
		if got := parseProtected(protect(b, key)); !bytes.Equal(got.Bytes(), key.Bytes()) {
			t.Fatal("the protected key was not kept")
		}
	})
}
