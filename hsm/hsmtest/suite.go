package hsmtest

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
)

// Fixture says how to get the tokens that [Run] examines, and what they can do.
type Fixture struct {
	// New sets up a driver that sees a token as new: initialised, with a PIN,
	// without keys, locked. It is called for every test and cleans up by t.
	New func(t *testing.T) Device
	// Algorithms are those the token generates, the fastest first.
	Algorithms []hsm.Algorithm
	// NoDelete: the token cannot delete keys ([hsm.ErrUnsupported]).
	NoDelete bool
	// NoPSS: the token makes no RSA-PSS signatures.
	NoPSS bool
}

// Device is one token, ready to be examined.
type Device struct {
	Driver hsm.Driver
	// Token names the token by what stays: its serial, its label if it has one.
	Token hsm.URI
	// PIN is its PIN, WrongPIN a well-formed other.
	PIN, WrongPIN string
	// Others are further secrets that the driver may ask for (a management key).
	Others map[hsm.PINKind]string
	// Slots are two or more values for [hsm.GenerateOptions].Slot. Nil: the
	// token makes up places of its own.
	Slots []string
	// Tries returns the PIN tries left, read without the driver. Nil: the token
	// does not tell.
	Tries func() int
	// AddToken adds a second token that the driver sees, of the same kind, and
	// returns its URI. Nil: cannot be done.
	AddToken func(t *testing.T) hsm.URI
	// Extract tries all it can to get the slot's private key out of the token,
	// without the driver, and fails t if it does. Nil: there is no such way.
	Extract func(t *testing.T, s hsm.Slot)
	// Unplug and Plug take the token away and bring it back. Nil: cannot be done.
	Unplug, Plug func()
}

// Run examines a driver: one subtest for each promise of the [hsm.Driver] and
// [hsm.Token] contracts.
func Run(t *testing.T, f Fixture) {
	for _, part := range []struct {
		name string
		test func(*testing.T, *bench)
	}{
		{"List", testList},
		{"Open", testOpen},
		{"OpenAmongTwo", testOpenAmongTwo},
		{"EmptyToken", testEmptyToken},
		{"Unlock", testUnlock},
		{"UnlockCancelled", testUnlockCancelled},
		{"UnlockNobody", testUnlockNobody},
		{"UnlockRefusesOTP", testUnlockOTP},
		{"UnlockLastTry", testUnlockLastTry},
		{"UnlockOnceForAll", testUnlockOnceForAll},
		{"Lock", testLock},
		{"Generate", testGenerate},
		{"GenerateRefuses", testGenerateRefuses},
		{"Occupied", testOccupied},
		{"NotExtractable", testNotExtractable},
		{"SlotsWithoutPIN", testSlotsWithoutPIN},
		{"SlotLookup", testSlotLookup},
		{"Sign", testSign},
		{"SignRefusesDigest", testSignRefusesDigest},
		{"SignAsks", testSignAsks},
		{"SignCancelled", testSignCancelled},
		{"SignConcurrently", testSignConcurrently},
		{"WantedKey", testWantedKey},
		{"Certificate", testCertificate},
		{"CertificateMismatch", testCertificateMismatch},
		{"Delete", testDelete},
		{"TLS", testTLS},
		{"Unplug", testUnplug},
		{"CancelledContext", testCancelledContext},
	} {
		t.Run(part.name, func(t *testing.T) {
			d := f.New(t)
			part.test(t, &bench{Fixture: f, Device: d})
		})
	}
}

// bench is what one test works on.
type bench struct {
	Fixture
	Device
	used int // Slots handed out
}

// open opens the token and closes it when the test ends.
func (b *bench) open(t *testing.T) hsm.Token {
	t.Helper()
	tok, err := b.Driver.Open(t.Context(), b.Token)
	if err != nil {
		t.Fatalf("open %s: %v", b.Token, err)
	}
	t.Cleanup(func() {
		if err := tok.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return tok
}

// typing answers all secrets of the device rightly.
func (b *bench) typing(t *testing.T) *Script {
	secrets := map[hsm.PINKind]string{hsm.UserPIN: b.PIN, hsm.PIVPIN: b.PIN}
	maps.Copy(secrets, b.Others)
	return TypingAll(t, secrets)
}

// options says how to generate a key in the next unused slot.
func (b *bench) options(t *testing.T, a hsm.Algorithm) hsm.GenerateOptions {
	t.Helper()
	o := hsm.GenerateOptions{Label: "hsmtest " + string(a), Algorithm: a}
	if b.Slots != nil {
		o.Slot = b.Slots[b.used%len(b.Slots)]
		o.Overwrite = b.used >= len(b.Slots)
		b.used++
	}
	return o
}

// generate makes a key.
func (b *bench) generate(t *testing.T, tok hsm.Token, a hsm.Algorithm) hsm.Slot {
	t.Helper()
	slot, err := tok.Generate(t.Context(), b.options(t, a), b.typing(t))
	if err != nil {
		t.Fatalf("generate %s: %v", a, err)
	}
	if slot.Key == nil || slot.Key.Public == nil {
		t.Fatalf("generate %s: a slot without a public key: %+v", a, slot)
	}
	return slot
}

// signer returns a signer for the key in slot.
func (b *bench) signer(t *testing.T, tok hsm.Token, slot hsm.Slot, p hsm.Prompter) crypto.Signer {
	t.Helper()
	s, err := tok.Signer(t.Context(), slot.URI, slot.Key.Public, p)
	if err != nil {
		t.Fatalf("signer for %s: %v", slot.URI, err)
	}
	return s
}

// lock locks the token, as it is for a program that just started.
func lock(t *testing.T, tok hsm.Token) {
	t.Helper()
	if err := tok.Lock(); err != nil {
		t.Fatalf("lock: %v", err)
	}
	if tok.Unlocked() {
		t.Fatal("unlocked after Lock")
	}
}

// wantErr fails t unless err wraps want.
func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// wantTries fails t unless the token still has n tries, as far as it tells.
func (b *bench) wantTries(t *testing.T, n int) {
	t.Helper()
	if b.Tries == nil {
		return
	}
	if got := b.Tries(); got != n {
		t.Fatalf("%d PIN tries left, want %d", got, n)
	}
}

func (b *bench) tries() int {
	if b.Tries == nil {
		return -1
	}
	return b.Tries()
}

func (b *bench) can(a hsm.Algorithm) bool { return slices.Contains(b.Algorithms, a) }

// slots lists what the token holds.
func slots(t *testing.T, tok hsm.Token, p hsm.Prompter) []hsm.Slot {
	t.Helper()
	s, err := tok.Slots(t.Context(), p)
	if err != nil {
		t.Fatalf("slots: %v", err)
	}
	return s
}

// holding returns the slots with a key.
func holding(all []hsm.Slot) []hsm.Slot {
	return slices.DeleteFunc(slices.Clone(all), func(s hsm.Slot) bool { return s.Key == nil })
}

// find returns the listed slot that holds pub.
func find(t *testing.T, all []hsm.Slot, pub crypto.PublicKey) hsm.Slot {
	t.Helper()
	for _, s := range all {
		if s.Key != nil && hsm.SameKey(s.Key.Public, pub) {
			return s
		}
	}
	t.Fatalf("the key is not among the %d slots listed", len(all))
	return hsm.Slot{}
}

func sameCertificate(a, b *x509.Certificate) bool { return a != nil && b != nil && a.Equal(b) }

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
