package worker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// FuzzSlot: what a worker says of a slot is refused by name, or is a slot whose key and
// certificate can be used, and which is packed so that it is unpacked the same.
func FuzzSlot(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		f.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []hsm.Slot{{}, {Key: &hsm.Key{Public: key.Public()}, Certificate: cert},
		{Certificate: cert, Problem: "x"},
		{URI: hsm.URI{Scheme: hsm.SchemePIV}, Certificate: cert, Older: []*x509.Certificate{cert}}} {
		packed, err := packSlot(s)
		if err != nil {
			f.Fatal(err)
		}
		b, err := json.Marshal(packed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"public":"AA==","Key":{}}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r *slotReply
		if json.Unmarshal(data, &r) != nil {
			return
		}
		slot, err := r.unpack()
		if err != nil {
			if !errors.Is(err, wire.ErrFrame) {
				t.Errorf("unnamed error %v", err)
			}
			return
		}
		if s := slot.URI.String(); strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) {
			t.Errorf("its URI is %q", s)
		}
		if slot.Key != nil && slot.Key.Public != nil {
			if _, err := hsm.Fingerprint(slot.Key.Public); err != nil {
				t.Error(err)
			}
			_ = hsm.SameKey(slot.Key.Public, key.Public())
		}
		if slot.URI.Scheme == "" { // No driver names such a slot.
			return
		}
		packed, err := packSlot(slot)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(packed)
		if err != nil {
			t.Fatal(err)
		}
		var again *slotReply
		if err := json.Unmarshal(b, &again); err != nil {
			t.Fatal(err)
		}
		back, err := again.unpack()
		if err != nil || (back.Certificate == nil) != (slot.Certificate == nil) || !reflect.DeepEqual(back.URI, slot.URI) ||
			(back.Key == nil) != (slot.Key == nil) || len(back.Older) != len(slot.Older) ||
			back.Key != nil && back.Key.Public != nil && !hsm.SameKey(back.Key.Public, slot.Key.Public) {
			t.Errorf("%+v is unpacked as %+v (%v)", slot, back, err)
		}
	})
}
