package hsmtest_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
)

func TestFakeKeepsTheContract(t *testing.T) {
	for _, c := range []struct {
		name, scheme string
		can          hsm.Abilities
	}{{"pkcs11", hsm.SchemePKCS11, hsm.Abilities{}}, {"piv", hsm.SchemePIV, hsm.Abilities{}},
		{"administered", hsm.SchemePIV, hsmtest.Administered()}} {
		t.Run(c.name, func(t *testing.T) {
			hsmtest.Run(t, hsmtest.Fixture{
				Algorithms: []hsm.Algorithm{hsm.ECDSAP256, hsm.ECDSAP384, hsm.Ed25519, hsm.RSA2048},
				Slow:       []hsm.Algorithm{hsm.RSA3072},
				Has:        hsmtest.Tries | hsmtest.AddToken | hsmtest.Unplug,
				New: func(*testing.T) hsmtest.Device {
					f := hsmtest.NewFake(c.scheme)
					tok := f.Add(hsmtest.FakeOptions{Can: c.can})
					d := hsmtest.Device{
						Driver: f, Token: tok.Info().URI(), PIN: "123456", WrongPIN: "654321",
						Tries: tok.Tries, Unplug: tok.Unplug, Plug: tok.Plug,
						AddToken: func(*testing.T) hsm.URI { return f.Add(hsmtest.FakeOptions{}).Info().URI() },
					}
					if c.scheme == hsm.SchemePIV {
						d.Slots = []string{"9a", "9c", "9e"}
					}
					return d
				},
			})
		})
	}
}

// TestFakeTouch: a signature waits for the touch, shown meanwhile, and counts.
func TestFakeTouch(t *testing.T) {
	f := hsmtest.NewFake(hsm.SchemePIV)
	fake := f.Add(hsmtest.FakeOptions{TouchPolicy: hsm.TouchAlways})
	tok, err := f.Open(t.Context(), fake.Info().URI())
	must.OK(t, err)
	p := hsmtest.NewScript(t, hsmtest.PIN("123456"))
	slot, err := tok.Generate(t.Context(), hsm.GenerateOptions{Slot: "9a"}, p)
	must.OK(t, err)
	sum := sha256.Sum256(nil)
	sign := func(ctx context.Context) error {
		s, err := tok.Signer(ctx, slot.URI, nil, p)
		if err != nil {
			return err
		}
		_, err = s.Sign(rand.Reader, sum[:], crypto.SHA256)
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	fake.Before(func(_ context.Context, op hsmtest.Op) error {
		if op == hsmtest.OpSign {
			cancel() // the touch does not come
		}
		return nil
	})
	if err := sign(ctx); !errors.Is(err, context.Canceled) || fake.Signatures() != 0 {
		t.Fatalf("untouched: %v, %d signatures", err, fake.Signatures())
	}
	fake.Before(nil)
	fake.Touch()
	if err := sign(t.Context()); err != nil || fake.Signatures() != 1 {
		t.Fatalf("touched: %v, %d signatures", err, fake.Signatures())
	}
	if p.Waiting() != 0 {
		t.Errorf("%d touch prompts still up", p.Waiting())
	}
	boom := errors.New("boom")
	fake.Fail(hsmtest.OpSign, boom)
	if err := sign(t.Context()); !errors.Is(err, boom) {
		t.Errorf("injected error: %v", err)
	}
}
