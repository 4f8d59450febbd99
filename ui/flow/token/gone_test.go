package token

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
)

// TestIsGone: only what the token shows for certain counts as the loss of a key.
func TestIsGone(t *testing.T) {
	key := func() *hsm.Key {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return &hsm.Key{Algorithm: hsm.ECDSAP256, Public: k.Public()}
	}
	own := key()
	hash, err := hsm.Fingerprint(own.Public)
	if err != nil {
		t.Fatal(err)
	}
	card := hsm.URI{Scheme: hsm.SchemePIV, Serial: "7", Slot: "82"}
	soft := hsm.URI{Scheme: hsm.SchemePKCS11, Token: "blue", Object: "prod"}
	for name, c := range map[string]struct {
		of    hsm.URI
		slots []hsm.Slot
		gone  bool
	}{
		"there":                   {card, []hsm.Slot{{ID: "9a", Key: key()}, {ID: "82", Key: own}}, false},
		"an empty slot":           {card, []hsm.Slot{{ID: "9a", Key: own}}, true},
		"another key":             {card, []hsm.Slot{{ID: "82", Key: key()}}, true},
		"its certificate alone":   {card, []hsm.Slot{{ID: "82", Half: hsm.HalfCertificate}}, true},
		"without its public key":  {card, []hsm.Slot{{ID: "82", Half: hsm.HalfPrivate}}, false},
		"hidden":                  {soft, nil, false},
		"hidden, but another key": {soft, []hsm.Slot{{Label: "prod", Key: key()}}, true},
		"hidden, and there":       {soft, []hsm.Slot{{Label: "prod", Key: own}}, false},
	} {
		if got := IsGone(c.of, hash, c.slots); got != c.gone {
			t.Errorf("%s: gone %t", name, got)
		}
	}
}
