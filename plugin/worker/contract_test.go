//go:build linux && cgo

package worker

import (
	"encoding/hex"
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/piv"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// apartFrom is the driver of inner's sources, each in a process of its own.
func apartFrom(t *testing.T, inner hsm.Surveyor) hsm.Driver {
	t.Helper()
	t.Setenv(lockVar, t.TempDir())
	d := Apart(Options{Exe: os.Args[0], Patient: true}, hsm.Drivers{inner})[0]
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestContract: a card in a worker does all that drivers promise, as one in this process
// does: every call, answer, error and question crosses.
func TestContract(t *testing.T) {
	key := []byte("kubehsm management key24")
	hsmtest.Run(t, hsmtest.Fixture{
		New: func(t *testing.T) hsmtest.Device {
			lab := vcard.ForTest(t)
			card := vcard.New(vcard.Config{})
			alg, _ := card.ManagementKey()
			card.SetManagementKey(alg, key)
			lab.Insert(t, 0, card)
			return hsmtest.Device{
				Driver: apartFrom(t, piv.New(piv.Options{})), Token: hsm.URI{Scheme: hsm.SchemePIV, Serial: "12345678"},
				PIN: vcard.DefaultPIN, WrongPIN: "654321",
				Others: map[hsm.PINKind]string{hsm.ManagementKey: hex.EncodeToString(key)},
				Slots:  []string{"9a", "9c", "82", "83", "95"},
				Tries:  func() int { pin, _ := card.PINRetries(); return pin },
				AddToken: func(t *testing.T) hsm.URI {
					lab.Insert(t, 1, vcard.New(vcard.Config{Serial: 87654321}))
					return hsm.URI{Scheme: hsm.SchemePIV, Serial: "87654321"}
				},
				Unplug: func() { lab.Remove(t, 0) },
				Plug:   func() { lab.Insert(t, 0, card) },
			}
		},
		Algorithms: []hsm.Algorithm{hsm.ECDSAP256, hsm.RSA2048},
		Has:        hsmtest.Tries | hsmtest.AddToken | hsmtest.Unplug,
	})
}
