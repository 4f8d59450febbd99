package token

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestIsGone: only what the token shows for certain counts as the loss of a key.
func TestIsGone(t *testing.T) {
	key := func() *hsm.Key {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must.OK(t, err)
		return &hsm.Key{Algorithm: hsm.ECDSAP256, Public: k.Public()}
	}
	own := key()
	hash, err := hsm.Fingerprint(own.Public)
	must.OK(t, err)
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

// TestHides: what failed may hide the tokens that are behind it, and no others.
func TestHides(t *testing.T) {
	card := hsm.URI{Scheme: hsm.SchemePIV, Serial: "7"}
	soft := hsm.URI{Scheme: hsm.SchemePKCS11, Token: "trial", ModulePath: "/usr/lib/soft.so"}
	for what, c := range map[string]struct {
		source string
		err    error
		hides  string // the scheme of the token that it hides
	}{
		"service stopped": {hsm.SchemePIV, hsm.ErrNoToken, hsm.SchemePIV},
		"card in use":     {"Reader 0", hsm.ErrBusy, hsm.SchemePIV},
		"empty reader":    {"Reader 0", hsm.ErrNoToken, ""},
		"foreign card":    {"Reader 0", hsm.ErrUnsupported, ""},
		"library failed":  {"/usr/lib/soft.so", hsm.ErrModule, hsm.SchemePKCS11},
		"its token":       {"/usr/lib/soft.so: slot 1", hsm.ErrModule, hsm.SchemePKCS11},
		"other library":   {"/usr/lib/other.so", hsm.ErrModule, ""},
		"no library used": {hsm.SchemePKCS11, hsm.ErrUnavailable, hsm.SchemePKCS11},
	} {
		for _, u := range []hsm.URI{card, soft} {
			if got := Hides(hsm.Problem{Source: c.source, Err: c.err}, u); got != (u.Scheme == c.hides) {
				t.Errorf("%s, %s: %t", what, u, got)
			}
		}
	}
}
