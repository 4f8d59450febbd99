package present

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

func TestSlots(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	key, cert := newKey(t), &x509.Certificate{}
	signed := func(of *ecdsa.PrivateKey, subject pkix.Name, until time.Time) *x509.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: subject,
			NotBefore: now.Add(-time.Hour), NotAfter: until}, &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}},
			&of.PublicKey, newKey(t))
		if err == nil {
			cert, err = x509.ParseCertificate(der)
		}
		must.OK(t, err)
		return cert
	}
	card := hsm.URI{Scheme: hsm.SchemePIV, Serial: "1", Slot: "9a"}
	private := &hsm.Key{Algorithm: hsm.ECDSAP256, Public: &key.PublicKey, Origin: hsm.Generated, PIN: hsm.PINOnce,
		Touch: hsm.TouchAlways}
	jane := pkix.Name{CommonName: "jane", Organization: []string{"dev\x1b[2J", "ops"}}
	far := now.Add(1000 * time.Hour)
	for name, c := range map[string]struct {
		slot  hsm.Slot
		row   SlotRow
		facts []string
	}{
		"empty": {hsm.Slot{URI: card, ID: "9a"}, SlotRow{ID: "9a", Empty: true}, []string{"Meant for: authentication", "URI: piv:serial=1;slot=9a"}},
		"unreadable": {hsm.Slot{URI: card, ID: "9a", Problem: "bad\ndata"}, SlotRow{ID: "9a", Problem: `bad\ndata`, Empty: true},
			[]string{`! Problem: bad\ndata`}},
		"a key": {hsm.Slot{URI: card, ID: "9a", Key: private}, SlotRow{ID: "9a", Key: Fact{Value: "ecdsa-p256"}, Origin: "generated", PIN: "once",
			Touch: "always", Certificate: Fact{Value: "-"}},
			[]string{"Key: ecdsa-p256, generated on the token, cannot leave it",
				"PIN: once, asked once, until the token is locked or unplugged",
				"Touch: always, a touch for every signature", "Fingerprint: ", "In words: "}},
		"a key that is no secret": {hsm.Slot{ID: "01", Label: "old", Key: &hsm.Key{Algorithm: hsm.RSA2048, Extractable: true}},
			SlotRow{ID: "01", Label: "old", Key: Fact{Value: "rsa-2048", Level: Warn}, PIN: "-", Touch: "-",
				Certificate: Fact{Value: "-"}},
			[]string{"Label: old", "Key: rsa-2048", "! Warning: the private key may leave the token"}},
		"a key and its certificate": {hsm.Slot{URI: card, ID: "9a", Key: private, Certificate: signed(key, jane, far)},
			SlotRow{ID: "9a", Key: Fact{Value: "ecdsa-p256"}, Origin: "generated", PIN: "once", Touch: "always",
				Certificate: Fact{Value: "jane"}, Expires: Fact{Value: "in 41 d", Level: Good}},
			[]string{`User: jane in ops, dev\x1b[2J`, "Issuer: CN=ca", "Until: " + Date(far) + " (in 41 d)"}},
		"another key's certificate, expired": {hsm.Slot{URI: card, ID: "9a", Key: private, Certificate: signed(newKey(t), jane, now.Add(-time.Minute))},
			SlotRow{ID: "9a", Key: Fact{Value: "ecdsa-p256"}, Origin: "generated", PIN: "once", Touch: "always",
				Certificate: Fact{Value: "other key: jane", Level: Warn}, Expires: Fact{Value: "expired", Level: Bad}},
			[]string{"! Mind: the certificate is for another key than the one in this slot",
				"! Until: " + Date(now.Add(-time.Minute)) + " (expired)"}},
		"half a key": {hsm.Slot{ID: "01", Label: "old", Half: hsm.HalfPublic, Problem: "the private key is missing"},
			SlotRow{ID: "01", Label: "old", Key: Fact{Value: "public half", Level: Warn}, Certificate: Fact{Value: "-"},
				Problem: "the private key is missing"}, []string{"! Problem: the private key is missing"}},
		"older certificates": {hsm.Slot{URI: card, ID: "9a", Key: private, Certificate: signed(key, jane, far),
			Older: []*x509.Certificate{signed(key, jane, far)}},
			SlotRow{ID: "9a", Key: Fact{Value: "ecdsa-p256"}, Origin: "generated", PIN: "once", Touch: "always",
				Certificate: Fact{Value: "jane"}, Expires: Fact{Value: "in 41 d", Level: Good}},
			[]string{"! Besides: 1 older certificate for this key"}},
		"a lone certificate": {hsm.Slot{URI: card, ID: "9a", Certificate: signed(key, jane, far)},
			SlotRow{ID: "9a", Key: Fact{Value: "no key"}, Certificate: Fact{Value: "jane"},
				Expires: Fact{Value: "in 41 d", Level: Good}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			row := RowOf(c.slot, now)
			row.Left = 0
			if row != c.row {
				t.Errorf("%+v\nwant %+v", row, c.row)
			}
			said := plain(SlotFacts(c.slot, now))
			for _, want := range c.facts {
				if !strings.Contains(said, want) {
					t.Errorf("%q is missing:\n%s", want, said)
				}
			}
		})
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	return k
}

// plain puts facts into lines.
func plain(facts []Fact) string {
	var b strings.Builder
	for _, f := range facts {
		if f.Value == "" {
			continue
		}
		if f.Level >= Warn {
			b.WriteString("! ")
		}
		b.WriteString(f.Name + ": " + f.Value + "\n")
	}
	return b.String()
}

func TestTokenFacts(t *testing.T) {
	card := hsm.TokenInfo{Scheme: hsm.SchemePIV, Model: "YubiKey 5", Manufacturer: "Yubico", Serial: "1",
		Initialized: true, PIN: hsm.PINState{Retries: 3}}
	details := &hsm.Details{PIN: &hsm.Tries{Left: 2, Total: 3, Default: true},
		PUK:           &hsm.Tries{Left: 3, Total: 3, Default: true},
		ManagementKey: hsm.ManagementKeyState{Default: true}, FIPS: true, Attests: true}
	facts := TokenFacts(card, details)
	said := plain(facts)
	for _, want := range []string{"Serial: 1", "Kind: PIV, Yubico", "! PIN: default, 2 of 3 tries left",
		"! PUK: default, 3 of 3 tries left",
		"! Management key: default", "Attestation: the card can attest its keys", "Form: FIPS", "URI: piv:serial=1"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing:\n%s", want, said)
		}
	}
	notes := NotedIn(facts)
	if len(notes) != 3 || !strings.Contains(strings.Join(notes, "\n"), "`kubehsm token pin change` sets your own") {
		t.Errorf("%q", notes)
	}
	if words, l := PIN(hsm.TokenInfo{}, nil); words != "not initialized" || l != Quiet {
		t.Errorf("a blank token: %q, %v", words, l)
	}
	if words, l := PIN(hsm.TokenInfo{Initialized: true, PIN: hsm.PINState{Retries: 0}}, nil); words != "PIN blocked" ||
		l != Bad {
		t.Errorf("a blocked PIN: %q, %v", words, l)
	}
}
