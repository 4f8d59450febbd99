package hsmtest

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// Fixture says how to get the tokens that [Run] examines, and what they can do.
type Fixture struct {
	// New sets up a driver that sees a token as new: initialized, with a PIN,
	// without keys, locked. It is called for every test and cleans up by t.
	New func(t *testing.T) Device
	// Algorithms are those the token generates, the fastest first.
	Algorithms []hsm.Algorithm
	// Slow are further ones, whose keys take seconds to make: one key each is
	// made and tried.
	Slow []hsm.Algorithm
	// NoDelete: the token cannot delete keys ([hsm.ErrUnsupported]).
	NoDelete bool
	// NoOrigin: the token does not say where a key was made.
	NoOrigin bool
	// NoPSS: the token makes no RSA-PSS signatures.
	NoPSS bool
	// ReadOnly: keys are not made and certificates not written through the
	// driver ([hsm.ErrUnsupported]); Device.Keys are there already.
	ReadOnly bool
	// NoGuessing: no wrong PIN may be typed, as on somebody's own token.
	NoGuessing bool
	// Has is what every Device of New has; parts that need more are not run.
	Has Feature
}

// Feature is what a [Device] may have, or several of them.
type Feature uint8

// The features are the fields of [Device] of the same names.
const (
	Tries    Feature = 1 << iota // a new token has three PIN tries
	AddToken                     // a second token
	Extract
	Unplug // and Plug
)

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
	// Keys are those that a read-only token holds, two or more of the first
	// algorithm, each with a certificate.
	Keys map[hsm.Algorithm][]crypto.PublicKey
	// Tries returns the PIN tries left, read without the driver.
	Tries func() int
	// AddToken adds a second token that the driver sees, of the same kind, and
	// returns its URI.
	AddToken func(t *testing.T) hsm.URI
	// Extract tries all it can to get the slot's private key out of the token,
	// without the driver, and fails t if it does.
	Extract func(t *testing.T, s hsm.Slot)
	// Unplug and Plug take the token away and bring it back.
	Unplug, Plug func()
}

// has fails t if the device lacks what its fixture promises, or has more: no
// part is left out by mistake.
func (d Device) has(t *testing.T, promised Feature) {
	t.Helper()
	var has Feature
	for f, is := range map[Feature]bool{Tries: d.Tries != nil, AddToken: d.AddToken != nil, Extract: d.Extract != nil,
		Unplug: d.Unplug != nil && d.Plug != nil} {
		if is {
			has |= f
		}
	}
	if has != promised {
		t.Fatalf("the fixture promises the features %b, the device has %b", promised, has)
	}
}

// part is one test of the suite.
type part struct {
	name  string
	test  func(*testing.T, *bench)
	does  doing
	needs Feature
}

// doing is what a part does to the token beside signing.
type doing uint8

const (
	makes    doing = 1 << iota // makes keys or writes certificates
	empty                      // a token without keys is wanted
	guesses                    // the test types wrong PINs
	refused                    // a token that cannot be written is wanted
	unlisted                   // the part is about what the driver says: no result of the token's
)

var parts = []part{
	{"List", testList, 0, 0},
	{"Open", testOpen, 0, 0},
	{"OpenAmongTwo", testOpenAmongTwo, 0, AddToken},
	{"EmptyToken", testEmptyToken, empty, 0},
	{"Unlock", testUnlock, guesses, 0},
	{"UnlockCancelled", testUnlockCancelled, guesses, 0},
	{"UnlockNobody", testUnlockNobody, 0, 0},
	{"UnlockRefusesOTP", testUnlockOTP, guesses, 0},
	{"UnlockRefusesControl", testUnlockControl, guesses | unlisted, 0},
	{"UnlockLastTry", testUnlockLastTry, guesses, Tries},
	{"UnlockOnceForAll", testUnlockOnceForAll, 0, 0},
	{"Lock", testLock, 0, 0},
	{"Generate", testGenerate, makes, 0},
	{"GenerateRefuses", testGenerateRefuses, makes, 0},
	{"Occupied", testOccupied, makes, 0},
	{"NotExtractable", testNotExtractable, 0, Extract},
	{"SlotsWithoutPIN", testSlotsWithoutPIN, 0, 0},
	{"SlotLookup", testSlotLookup, 0, 0},
	{"Sign", testSign, 0, 0},
	{"SignRefusesDigest", testSignRefusesDigest, 0, 0},
	{"SignAsks", testSignAsks, guesses, 0},
	{"SignCancelled", testSignCancelled, 0, 0},
	{"SignConcurrently", testSignConcurrently, 0, 0},
	{"WantedKey", testWantedKey, 0, 0},
	{"Certificate", testCertificate, makes, 0},
	{"CertificateMismatch", testCertificateMismatch, makes, 0},
	{"Delete", testDelete, makes, 0},
	{"TLS", testTLS, 0, 0},
	{"Slow", testSlow, makes, 0},
	{"Unplug", testUnplug, 0, Unplug},
	{"CancelledContext", testCancelledContext, makes, 0},
	{"ReadOnly", testReadOnly, refused, 0},
	{"Can", testCan, unlisted, 0},
}

// Run examines a driver: one subtest for each promise of the [hsm.Driver] and
// [hsm.Token] contracts. It returns what the token was seen to do.
func Run(t *testing.T, f Fixture) Results {
	r := newResults(f)
	var left []string
	for _, p := range parts {
		verdict := Untested
		switch {
		case f.ReadOnly && p.does&makes != 0:
			verdict = Cannot // and testReadOnly sees how it says so
		case f.ReadOnly && p.does&empty != 0, !f.ReadOnly && p.does&refused != 0, f.NoGuessing && p.does&guesses != 0,
			p.needs&^f.Has != 0:
			left = append(left, p.name)
		default:
			ran := false
			t.Run(p.name, func(t *testing.T) {
				ran = true
				began := time.Now()
				t.Cleanup(func() {
					r.Timings = append(r.Timings, Timing{p.name, time.Since(began)})
					switch {
					case t.Failed():
						verdict = Failed
					case !t.Skipped(): // skipped: New lacks a program
						verdict = Can
					}
				})
				d := f.New(t)
				d.has(t, f.Has)
				p.test(t, &bench{Fixture: f, Device: d})
			})
			r.Complete = r.Complete && ran
		}
		if p.does&unlisted == 0 {
			r.note(f, p.name, verdict)
		}
	}
	if len(left) > 0 {
		t.Logf("nothing that this fixture has: %s", strings.Join(left, ", "))
	}
	r.Complete = r.Complete && !t.Failed()
	return r
}

// bench is what one test works on.
type bench struct {
	Fixture
	Device
	used int                   // Slots handed out
	took map[hsm.Algorithm]int // Keys handed out
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

// generate makes a key, or takes the next one that is there.
func (b *bench) generate(t *testing.T, tok hsm.Token, a hsm.Algorithm) hsm.Slot {
	t.Helper()
	if b.ReadOnly {
		return b.take(t, tok, a)
	}
	slot, err := tok.Generate(t.Context(), b.options(t, a), b.typing(t))
	if err != nil {
		t.Fatalf("generate %s: %v", a, err)
	}
	if slot.Key == nil || slot.Key.Public == nil {
		t.Fatalf("generate %s: a slot without a public key: %+v", a, slot)
	}
	return slot
}

// take returns the next of the keys that a read-only token holds.
func (b *bench) take(t *testing.T, tok hsm.Token, a hsm.Algorithm) hsm.Slot {
	t.Helper()
	keys := b.Keys[a]
	if len(keys) == 0 {
		t.Fatalf("the fixture has no %s key", a)
	}
	if b.took == nil {
		b.took = map[hsm.Algorithm]int{}
	}
	pub := keys[b.took[a]%len(keys)]
	b.took[a]++
	return find(t, slots(t, tok, b.typing(t)), pub)
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
