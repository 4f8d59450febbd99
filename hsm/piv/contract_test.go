//go:build cgo || windows

package piv

import (
	"encoding/hex"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/tokens"
	"github.com/kubehsm/kubehsm/test/vcard"
)

const wrongPIN = "654321"

// ownKey is a management key that is not the factory's.
var ownKey = []byte("kubehsm management key24")

const features = hsmtest.Tries | hsmtest.AddToken | hsmtest.Unplug

// device has a new card in the lab's first reader.
func device(lab *vcard.Lab, config vcard.Config) func(t *testing.T) hsmtest.Device {
	return func(t *testing.T) hsmtest.Device {
		card := vcard.New(config)
		alg, _ := card.ManagementKey()
		card.SetManagementKey(alg, ownKey)
		lab.Insert(t, 0, card)
		lab.Remove(t, 1)
		d := New(Options{})
		t.Cleanup(func() { d.Close() })
		return hsmtest.Device{
			Driver: d, Token: hsm.URI{Scheme: hsm.SchemePIV, Serial: "12345678"},
			PIN: vcard.DefaultPIN, WrongPIN: wrongPIN,
			Others: map[hsm.PINKind]string{hsm.ManagementKey: hex.EncodeToString(ownKey)},
			Slots:  []string{"9a", "9c", "82", "83", "95"},
			Tries:  func() int { pin, _ := card.PINRetries(); return pin },
			AddToken: func(t *testing.T) hsm.URI {
				lab.Insert(t, 1, vcard.New(vcard.Config{Serial: 87654321}))
				return hsm.URI{Scheme: hsm.SchemePIV, Serial: "87654321"}
			},
			Unplug: func() { lab.Remove(t, 0) },
			Plug:   func() { lab.Insert(t, 0, card) },
		}
	}
}

func TestContract(t *testing.T) {
	t.Run("5.7.1", func(t *testing.T) {
		r := hsmtest.Run(t, hsmtest.Fixture{
			New:        device(vcard.ForTest(t), vcard.Config{}),
			Algorithms: []hsm.Algorithm{hsm.ECDSAP256, hsm.ECDSAP384, hsm.Ed25519, hsm.RSA2048},
			Slow:       []hsm.Algorithm{hsm.RSA3072, hsm.RSA4096},
			Has:        features,
		})
		tokens.Record(t, "virtual YubiKey 5.7.1", "piv", r)
	})
	t.Run("4.3.5", func(t *testing.T) { // no metadata, no deletion, serial in the OTP application
		r := hsmtest.Run(t, hsmtest.Fixture{
			New:        device(vcard.ForTest(t), vcard.Config{Firmware: [3]byte{4, 3, 5}}),
			Algorithms: []hsm.Algorithm{hsm.ECDSAP256, hsm.RSA2048},
			NoDelete:   true,
			Has:        features,
		})
		tokens.Record(t, "virtual YubiKey 4.3.5", "piv", r)
	})
}
