package hsmtest

import (
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Fake is an in-memory [hsm.Driver] for unit tests of the layers above: real
// signatures, real prompts, but keys in ordinary memory. It serves either
// scheme: "piv" tokens have the slots 9a, 9c, 9d and 9e, "pkcs11" ones make up
// ids. It is safe for concurrent use.
type Fake struct {
	scheme string

	mu       sync.Mutex
	tokens   []*FakeToken
	problems []hsm.Problem
	closed   bool
}

var _ hsm.Driver = (*Fake)(nil)

// NewFake returns a driver for scheme ([hsm.SchemePKCS11] or [hsm.SchemePIV])
// without tokens.
func NewFake(scheme string) *Fake { return &Fake{scheme: scheme} }

// FakeOptions describe a fake token. Empty fields get sensible values.
type FakeOptions struct {
	Label  string // PKCS#11 only; "hsmtest"
	Serial string // made up
	PIN    string // "123456"
	// New: the token says of its secrets that they are the default ones, until they are changed.
	New   bool
	Tries int // PIN tries until it locks; 3
	// PINNotSet: the token has no user PIN yet.
	PINNotSet bool
	// PINPolicy and TouchPolicy are those of keys generated with the defaults;
	// if they are defaults too, [hsm.PINOnce] and [hsm.TouchNever].
	PINPolicy   hsm.PINPolicy
	TouchPolicy hsm.TouchPolicy
	// Can is what it can do beside what every fake can, see [Administered].
	Can hsm.Abilities
	// Seed, if not "", makes the elliptic-curve keys that the token generates the same in
	// every run.
	Seed string
}

// Op names what a token is asked to do, for [FakeToken.Before].
type Op string

// The operations, each named after the method of [hsm.Token] that runs it.
const (
	OpOpen             Op = "open"
	OpInfo             Op = "info"
	OpSlots            Op = "slots"
	OpUnlock           Op = "unlock" // after the PIN was typed
	OpGenerate         Op = "generate"
	OpStoreCertificate Op = "store-certificate"
	OpDelete           Op = "delete"
	OpSign             Op = "sign"       // before the touch
	OpAdminister       Op = "administer" // all of [hsm.Administration] but AllSlots
	OpChange           Op = "change"     // the part of it that changes the token, after all answers
)

// FakeToken is one token of a [Fake], with the strings a test pulls.
type FakeToken struct {
	asking chan struct{} // held while a PIN is asked for

	mu         sync.Mutex
	info       hsm.TokenInfo
	options    FakeOptions
	tries      int
	present    bool
	unlocked   bool
	slots      []*fakeSlot
	before     func(context.Context, Op) error
	touch      chan struct{}
	puk        string
	pukTries   int
	management string // the management key, "" is the default one
	signatures int
	generated  int
}

type fakeSlot struct {
	id, label string
	key       crypto.Signer
	info      hsm.Key
	cert      *x509.Certificate
	attested  *hsm.Attestation
}

// Add adds a token, plugged in and locked.
func (f *Fake) Add(o FakeOptions) *FakeToken {
	f.mu.Lock()
	defer f.mu.Unlock()
	o.PIN = cmp.Or(o.PIN, "123456")
	o.Tries = cmp.Or(o.Tries, 3)
	o.Serial = cmp.Or(o.Serial, fmt.Sprintf("%d", 10000001+len(f.tokens)))
	o.PINPolicy = cmp.Or(o.PINPolicy, hsm.PINOnce)
	o.TouchPolicy = cmp.Or(o.TouchPolicy, hsm.TouchNever)
	info := hsm.TokenInfo{
		Scheme: f.scheme, Serial: o.Serial, Manufacturer: "kubehsm", Model: "Fake",
		Firmware: "1.0.0", Reader: fmt.Sprintf("Fake reader %d", len(f.tokens)), Initialized: true,
		Can: hsm.Abilities{Generate: true, Store: true, Delete: true, Policies: true},
	}
	info.Can.Details = o.Can.Details
	info.Can.ChangePIN, info.Can.Reset = o.Can.ChangePIN, o.Can.Reset
	info.Can.ManagementKey = o.Can.ManagementKey
	if f.scheme == hsm.SchemePKCS11 {
		info.Label = cmp.Or(o.Label, "hsmtest")
		info.Module = &hsm.Module{Path: "/nonexistent/fake.so", Description: "hsmtest"}
	}
	t := &FakeToken{info: info, options: o, tries: o.Tries, puk: FakePUK, pukTries: o.Tries, present: true,
		asking: make(chan struct{}, 1), touch: make(chan struct{}, 1)}
	f.tokens = append(f.tokens, t)
	return t
}

// SetProblems makes [Fake.List] report problems beside the tokens.
func (f *Fake) SetProblems(p ...hsm.Problem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.problems = p
}

// Scheme implements [hsm.Driver].
func (f *Fake) Scheme() string { return f.scheme }

var errClosed = errors.New("the driver is closed")

// List implements [hsm.Driver].
func (f *Fake) List(ctx context.Context) (hsm.Listing, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return hsm.Listing{}, errClosed
	}
	l := hsm.Listing{Problems: append([]hsm.Problem(nil), f.problems...)}
	for _, t := range f.tokens {
		info, err := t.describe(ctx)
		switch {
		case errors.Is(err, hsm.ErrRemoved):
		case err != nil:
			l.Problems = append(l.Problems, hsm.Problem{Source: info.Reader, Err: err})
		default:
			l.Tokens = append(l.Tokens, info)
		}
	}
	return l, ctx.Err()
}

// Open implements [hsm.Driver].
func (f *Fake) Open(ctx context.Context, u hsm.URI) (hsm.Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errClosed
	}
	u.ModulePath, u.ModuleName = "", ""
	var found []*FakeToken
	for _, t := range f.tokens {
		if t.Present() && u.MatchToken(t.Info()) {
			found = append(found, t)
		}
	}
	switch len(found) {
	case 0:
		return nil, hint.With(fmt.Errorf("%s: %w", u, hsm.ErrNoToken), "plug it in")
	case 1:
		if err := found[0].run(ctx, OpOpen); err != nil {
			return nil, err
		}
		return &fakeHandle{FakeToken: found[0], fake: f}, nil
	}
	return nil, hint.With(fmt.Errorf("%s: %w", u, hsm.ErrSeveralTokens), "name one by its serial")
}

// Close implements [hsm.Driver].
func (f *Fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, t := range f.tokens {
		t.mu.Lock()
		t.unlocked = false
		t.mu.Unlock()
	}
	return nil
}

// Info returns the token's description and PIN state, plugged in or not.
func (t *FakeToken) Info() hsm.TokenInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	info := t.info
	info.PIN = hsm.PINState{
		Retries: t.tries, Low: t.tries < t.options.Tries, Final: t.tries == 1, Locked: t.tries == 0,
		NotSet: t.options.PINNotSet, MinLen: 4, MaxLen: 64, Default: t.options.New && t.options.PIN == "123456",
	}
	return info
}

// Describe changes the token's description, but for its PIN state.
func (t *FakeToken) Describe(change func(*hsm.TokenInfo)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.info)
}

// Present tells whether the token is plugged in.
func (t *FakeToken) Present() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.present
}

// Unplug takes the token away: what uses it gets [hsm.ErrRemoved].
func (t *FakeToken) Unplug() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.present, t.unlocked = false, false
}

// Plug brings the token back, locked.
func (t *FakeToken) Plug() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.present = true
}

// Tries returns the number of PIN tries left.
func (t *FakeToken) Tries() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tries
}

// Block takes all PIN tries away.
func (t *FakeToken) Block() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tries = 0
}

// Signatures returns how many signatures the token has made.
func (t *FakeToken) Signatures() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.signatures
}

// Key returns the private key whose public half has that hash ([hsm.Fingerprint]), of any token: a signature
// by it takes neither PIN nor touch, and is not counted. It is nil if there is none.
func (f *Fake) Key(hash string) crypto.Signer {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.tokens {
		t.mu.Lock()
		for _, s := range t.slots {
			if s.key == nil {
				continue
			}
			if h, err := hsm.Fingerprint(s.key.Public()); err == nil && h == hash {
				t.mu.Unlock()
				return s.key
			}
		}
		t.mu.Unlock()
	}
	return nil
}

// Touch touches the sensor: a signature that waits for it goes on, or the next
// one does not wait.
func (t *FakeToken) Touch() {
	select {
	case t.touch <- struct{}{}:
	default:
	}
}

// Before has f called ahead of every operation, without locks held: an error it
// returns fails the operation, and blocking in it delays the operation. Nil
// takes it off.
func (t *FakeToken) Before(f func(context.Context, Op) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.before = f
}

// Fail makes every later operation op fail with err. See [FakeToken.Before],
// which it replaces.
func (t *FakeToken) Fail(op Op, err error) {
	t.Before(func(_ context.Context, o Op) error {
		if o == op {
			return err
		}
		return nil
	})
}

// run admits the operation op.
func (t *FakeToken) run(ctx context.Context, op Op) error {
	t.mu.Lock()
	before, present := t.before, t.present
	t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if before != nil {
		if err := before(ctx, op); err != nil {
			return err
		}
		present = t.Present()
	}
	if !present {
		return fmt.Errorf("%s: %w", t.info.URI(), hsm.ErrRemoved)
	}
	return nil
}

func (t *FakeToken) describe(ctx context.Context) (hsm.TokenInfo, error) {
	err := t.run(ctx, OpInfo)
	return t.Info(), err
}
