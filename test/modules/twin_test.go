//go:build cgo

package modules

import (
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// TestCardIsListedOnce: three drivers reach one card. It is listed as PIV, and
// the modules' own URIs still open it.
func TestCardIsListedOnce(t *testing.T) {
	modules := pkcs11.New(pkcs11.Options{
		Modules: []pkcs11.Module{ykcs11(t), opensc(t)}, LockDir: filepath.Join(t.TempDir(), "lock"),
	})
	lab := vcard.ForTest(t)
	card := vcard.New(vcard.Config{Firmware: [3]byte{5, 4, 3}, Serial: 7654321})
	fill(t, card)
	lab.Insert(t, 0, card)
	all := hsm.Drivers{modules, piv.New(piv.Options{})}
	t.Cleanup(func() { all.Close() })
	seen, err := modules.List(t.Context())
	if err != nil || len(seen.Tokens) != 2 {
		t.Fatalf("the modules see %+v, %v (problems %v), want the card twice", seen.Tokens, err, seen.Problems)
	}
	l, err := all.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Tokens) != 1 || l.Tokens[0].Scheme != hsm.SchemePIV || len(l.Problems) != 0 {
		t.Errorf("listed %+v, problems %v; want the card once and nothing of the empty reader", l.Tokens, l.Problems)
	}
	for _, info := range seen.Tokens {
		tok, err := all.Open(t.Context(), info.URI())
		if err != nil {
			t.Errorf("open %s: %v", info.URI(), err)
			continue
		}
		if err := tok.Close(); err != nil {
			t.Error(err)
		}
	}
}
