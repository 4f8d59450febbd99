package piv

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
	"github.com/kubehsm/kubehsm/test/must"
)

// codeP256 is the code of ecdsa-p256, see [applet.AlgorithmCode].
const codeP256 = 0x11

// scripted is a card that answers with what it was given, then with 6A82.
type scripted struct{ answers []byte }

func (c *scripted) Transmit([]byte) ([]byte, error) {
	if len(c.answers) == 0 {
		return []byte{0x6a, 0x82}, nil
	}
	n := min(int(c.answers[0]), len(c.answers)-1)
	answer := c.answers[1 : 1+n]
	c.answers = c.answers[1+n:]
	return answer, nil
}

func (*scripted) End(bool) error { return nil }

// bench is a system with one such card.
type bench struct{ answers []byte }

func (bench) Readers() ([]pcsc.Reader, error) {
	return []pcsc.Reader{{Name: "fuzz", Present: true}}, nil
}

func (b bench) Connect(context.Context, string, time.Duration) (pcsc.Card, error) {
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
	f.Add(framed(ok, []byte{5, 7, 1, 0x90, 0}, []byte{0, 0, 0, 9, 0x90, 0},
		[]byte{1, 1, 0xff, 5, 1, 0, 6, 2, 3, 3, 0x90, 0}))
	f.Add(framed(ok, []byte{4, 3, 5, 0x90, 0}, []byte{0x61, 0xff}, []byte{0x6c, 4}, []byte{0x63, 0xc2}))
	f.Add(framed([]byte{0x6a, 0x82}))
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(f, err)
	f.Fuzz(func(t *testing.T, answers []byte) {
		d := New(Options{})
		d.cards.system = bench{answers}
		ctx := t.Context()
		l, err := d.List(ctx)
		if err != nil || len(l.Tokens)+len(l.Problems) != 1 {
			t.Fatalf("a reader is neither listed nor a problem: %+v, %v", l, err)
		}
		if len(l.Tokens) == 0 {
			return
		}
		tok := d.newToken(l.Tokens[0], pcsc.Reader{Name: "fuzz"})
		tok.card.keep(hsm.NewSecret([]byte("123456")))
		_, _ = tok.AllSlots(ctx)
		_, _ = tok.Details(ctx)
		_, _ = tok.Attest(ctx, hsm.URI{Scheme: hsm.SchemePIV, Slot: "9a"})
		_, _ = tok.Generate(ctx, hsm.GenerateOptions{Slot: "9a", Overwrite: true}, nil)
		s := &signer{ctx: ctx, t: tok, slot: 0x9a, code: codeP256, key: hsm.Key{Public: k.Public()}}
		if _, err := s.Sign(rand.Reader, make([]byte, 32), hash256{}); err == nil {
			t.Fatal("a card without the key made a signature")
		}
	})
}
