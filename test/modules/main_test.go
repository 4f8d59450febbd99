//go:build cgo

package modules

import (
	"crypto"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

func TestMain(m *testing.M) { os.Exit(vcard.Main(m)) }

// driver returns one for a single module.
func driver(t *testing.T, m pkcs11.Module) *pkcs11.Driver {
	t.Helper()
	return closed(t, pkcs11.New(pkcs11.Options{Modules: []pkcs11.Module{m}, LockDir: filepath.Join(t.TempDir(), "lock")}))
}

// closed closes the driver when the test ends.
func closed(t *testing.T, d *pkcs11.Driver) *pkcs11.Driver {
	t.Helper()
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close the driver: %v", err)
		}
	})
	return d
}

// only returns the one initialized token that the driver sees.
func only(t *testing.T, d hsm.Driver) hsm.TokenInfo {
	t.Helper()
	l, err := d.List(t.Context())
	must.OK(t, err)
	var found []hsm.TokenInfo
	for _, info := range l.Tokens {
		if info.Initialized {
			found = append(found, info)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d tokens, want 1: %+v, problems %v", len(found), l.Tokens, l.Problems)
	}
	return found[0]
}

// keys are what a card holds, by algorithm.
type keys map[hsm.Algorithm][]crypto.PublicKey
