//go:build cgo

package pkcs11

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/pkcs11/p11kit"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

var sum = sha256.Sum256([]byte("kubehsm"))

func mustSign(t *testing.T, s crypto.Signer) {
	t.Helper()
	if _, err := s.Sign(rand.Reader, sum[:], crypto.SHA256); err != nil {
		t.Fatalf("sign: %v", err)
	}
}

// TestSessionLost: what ends sessions behind the driver's back costs a PIN
// prompt, never an error.
func TestSessionLost(t *testing.T) {
	for name, end := range map[string]func(spy, uint) error{
		"closed":    func(s spy, slot uint) error { return s.CloseAllSessions(slot) },
		"loggedOut": func(s spy, _ uint) error { return s.Logout(s.sh) },
		"finalised": func(s spy, _ uint) error { return s.Finalize() },
	} {
		t.Run(name, func(t *testing.T) {
			d, soft := softHSM(t)
			tok := openToken(t, d)
			slot := generateKey(t, tok, hsm.GenerateOptions{})
			p := hsmtest.NewScript(t, hsmtest.PIN(testPIN))
			s, err := tok.Signer(t.Context(), slot.URI, nil, p)
			must.OK(t, err)
			mustSign(t, s)
			if n := len(p.PINs()); n != 0 {
				t.Fatalf("asked %d times while unlocked", n)
			}
			must.OK(t, end(spyOn(t, soft, testLabel), tok.(*token).d.slot))
			if tok.Unlocked() {
				t.Error("unlocked after the session ended")
			}
			if slots, err := tok.Slots(t.Context(), nil); err != nil || len(slots) != 1 {
				t.Errorf("%d slots, %v", len(slots), err)
			}
			mustSign(t, s)
			if n := len(p.PINs()); n != 1 {
				t.Errorf("asked %d times, want once", n)
			}
		})
	}
}

// TestTokenGone: the token's files vanish under a driver that starts anew.
func TestTokenGone(t *testing.T) {
	d, soft := softHSM(t)
	tok := openToken(t, d)
	u := tokenURI(t, d, testLabel)
	away := filepath.Join(t.TempDir(), "tokens")
	s := spyOn(t, soft, testLabel)
	must.OK(t, os.Rename(soft.Tokens, away))
	must.OK(t, os.Mkdir(soft.Tokens, 0o700))
	must.OK(t, s.Finalize())
	_, err := tok.Slots(t.Context(), nil)
	if !errors.Is(err, hsm.ErrRemoved) || hinting.Of(err) == "" {
		t.Errorf("a token that is gone: %v, hint %q", err, hinting.Of(err))
	}
	if _, err := d.Open(t.Context(), u); !errors.Is(err, hsm.ErrNoToken) {
		t.Errorf("open: %v", err)
	}
	must.OK(t, os.Remove(soft.Tokens))
	must.OK(t, os.Rename(away, soft.Tokens))
	must.OK(t, s.Finalize())
	if _, err := tok.Slots(t.Context(), nil); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}

// TestCloseKeepsLogin: one handle's Close does not lock the token for others,
// nor for who opens it next.
func TestCloseKeepsLogin(t *testing.T) {
	d, _ := softHSM(t)
	one, two := openToken(t, d), openToken(t, d)
	slot := generateKey(t, one, hsm.GenerateOptions{})
	for _, tok := range []hsm.Token{one, one, two} {
		must.OK(t, tok.Close())
	}
	three := openToken(t, d)
	s, err := three.Signer(t.Context(), slot.URI, nil, nil)
	must.OK(t, err)
	mustSign(t, s)
	must.OK(t, d.Close())
	if three.Unlocked() {
		t.Error("unlocked after the driver was closed")
	}
	if _, err := s.Sign(rand.Reader, sum[:], crypto.SHA256); err == nil {
		t.Error("signed after the driver was closed")
	}
	if _, err := d.List(t.Context()); err == nil {
		t.Error("listed after the driver was closed")
	}
}

// TestAlwaysAuthenticate: a key that wants the PIN every time gets it, asked
// for once per signature, the login included.
func TestAlwaysAuthenticate(t *testing.T) {
	d, _ := softHSM(t)
	tok := openToken(t, d)
	slot := generateKey(t, tok, hsm.GenerateOptions{PIN: hsm.PINAlways})
	if slot.Key.PIN != hsm.PINAlways {
		t.Fatalf("PIN policy %s", slot.Key.PIN)
	}
	p := hsmtest.NewScript(t, hsmtest.PIN(testPIN), hsmtest.PIN("000000"), hsmtest.PIN(testPIN), hsmtest.PIN(testPIN),
		hsmtest.Cancel())
	s, err := tok.Signer(t.Context(), slot.URI, nil, p)
	must.OK(t, err)
	for n, want := range []int{1, 3} {
		mustSign(t, s)
		if got := len(p.PINs()); got != want {
			t.Fatalf("signature %d: asked %d times so far, want %d", n, got, want)
		}
	}
	must.OK(t, tok.Lock())
	mustSign(t, s)
	if got := len(p.PINs()); got != 4 {
		t.Fatalf("after Lock: asked %d times so far, want 4", got)
	}
	if _, err := s.Sign(rand.Reader, sum[:], crypto.SHA256); !errors.Is(err, hsm.ErrCancelled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestRSARestricted: a token that refuses CKM_RSA_PKCS_PSS gets padded input.
func TestRSARestricted(t *testing.T) {
	d, soft := softHSM(t)
	conf, err := os.OpenFile(soft.Conf, os.O_APPEND|os.O_WRONLY, 0)
	must.OK(t, err)
	if _, err := conf.WriteString("slots.mechanisms = CKM_RSA_PKCS_KEY_PAIR_GEN,CKM_EC_KEY_PAIR_GEN,CKM_ECDSA,CKM_RSA_PKCS,CKM_RSA_X_509\n"); err != nil {
		t.Fatal(err)
	}
	must.OK(t, conf.Close())
	tok := openToken(t, d).(*token)
	slot := generateKey(t, tok, hsm.GenerateOptions{Algorithm: hsm.RSA2048})
	err = tok.d.reading(t.Context(), func(sh p11.SessionHandle) error {
		s := &signer{d: tok.d, ctx: t.Context(), uri: slot.URI, id: slot.URI.ID, pub: slot.Key.Public}
		key, _, err := s.find(sh)
		if err != nil {
			return err
		}
		pss := p11.NewMechanism(p11.CKM_RSA_PKCS_PSS, p11.NewPSSParams(p11.CKM_SHA256, p11.CKG_MGF1_SHA256, 32))
		return tok.d.module.ctx.SignInit(sh, []*p11.Mechanism{pss}, key)
	})
	if !refused(err) {
		t.Fatalf("the token was to refuse PSS: %v", err)
	}
	s, err := tok.Signer(t.Context(), slot.URI, nil, nil)
	must.OK(t, err)
	for _, salt := range []int{-1, 0, 11} {
		o := &rsa.PSSOptions{SaltLength: salt, Hash: crypto.SHA256}
		sig, err := s.Sign(rand.Reader, sum[:], o)
		if err != nil {
			t.Fatalf("salt %d: %v", salt, err)
		}
		if err := rsa.VerifyPSS(s.Public().(*rsa.PublicKey), o.Hash, sum[:], sig, o); err != nil {
			t.Errorf("salt %d: %v", salt, err)
		}
	}
	for _, o := range []hsm.GenerateOptions{{Touch: hsm.TouchAlways}, {PIN: hsm.PINNever}} {
		if _, err := tok.Generate(t.Context(), o, nil); !errors.Is(err, hsm.ErrUnsupported) {
			t.Errorf("generate what PKCS#11 cannot express: %v", err)
		}
	}
}

// TestWaitingIsCancellable: who waits for a busy token can give up.
func TestWaitingIsCancellable(t *testing.T) {
	d, _ := softHSM(t)
	tok := openToken(t, d).(*token)
	ctx, cancel := context.WithCancel(t.Context())
	err := tok.d.with(t.Context(), func(p11.SessionHandle) error {
		cancel()
		_, err := tok.Info(ctx)
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestLateToken: SoftHSM sees only the tokens that were there when it was set
// up. One that came later is found all the same, unless others would suffer.
func TestLateToken(t *testing.T) {
	soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: testLabel, PIN: testPIN})
	util := need.Program(t, "softhsm2-util")
	d := New(Options{Modules: []Module{{Path: soft.Module}}})
	t.Cleanup(func() { d.Close() })
	add := func(label string) hsm.URI {
		cmd := exec.Command(util, "--init-token", "--free", "--label", label, "--pin", testPIN, "--so-pin", testPIN)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return hsm.URI{Scheme: hsm.SchemePKCS11, Token: label}
	}
	tok := openToken(t, d)
	slot := generateKey(t, tok, hsm.GenerateOptions{})
	must.OK(t, tok.Lock())
	d.pause = 0

	late, err := d.Open(t.Context(), add("late"))
	if err != nil {
		t.Fatalf("a token that came later: %v", err)
	}
	must.OK(t, late.Unlock(t.Context(), hsmtest.Typing(t, testPIN)))
	signer, err := tok.Signer(t.Context(), slot.URI, nil, hsmtest.Typing(t, testPIN))
	if err != nil {
		t.Fatalf("the token from before: %v", err)
	}
	mustSign(t, signer)

	later := add("later")
	if _, err := d.Open(t.Context(), later); !errors.Is(err, hsm.ErrNoToken) {
		t.Errorf("found while others are unlocked: %v", err)
	}
	if !tok.Unlocked() || !late.Unlocked() {
		t.Error("looking for a token locked another")
	}
	for _, tok := range []hsm.Token{tok, late} {
		must.OK(t, tok.Lock())
	}
	d.pause = time.Hour
	if _, err := d.Open(t.Context(), later); !errors.Is(err, hsm.ErrNoToken) {
		t.Errorf("set up anew once more too soon: %v", err)
	}
	d.pause = 0
	if _, err := d.Open(t.Context(), later); err != nil {
		t.Error(err)
	}
}

// TestFirstToken: a list without a token is no reason to stay without.
func TestFirstToken(t *testing.T) {
	soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: testLabel, PIN: testPIN})
	away := soft.Tokens + ".away"
	must.OK(t, os.Rename(soft.Tokens, away))
	must.OK(t, os.Mkdir(soft.Tokens, 0o700))
	d := New(Options{Modules: []Module{{Path: soft.Module}}})
	t.Cleanup(func() { d.Close() })
	usable := func() int {
		l, err := d.List(t.Context())
		if err != nil || len(l.Problems) != 0 {
			t.Fatalf("%v, %v", l.Problems, err)
		}
		return len(slices.DeleteFunc(l.Tokens, func(t hsm.TokenInfo) bool { return !t.Initialized }))
	}
	if n := usable(); n != 0 {
		t.Fatalf("%d tokens", n)
	}
	must.OK(t, os.Remove(soft.Tokens))
	must.OK(t, os.Rename(away, soft.Tokens))
	d.pause = 0
	if n := usable(); n != 1 {
		t.Errorf("%d tokens", n)
	}
}

// TestRestartWhileUsed: setting a library up anew never gets in the way of those
// who use it.
func TestRestartWhileUsed(t *testing.T) {
	d, _ := softHSM(t)
	d.pause = 0
	tok := openToken(t, d)
	slot := generateKey(t, tok, hsm.GenerateOptions{})
	must.OK(t, tok.Lock())
	none := hsm.URI{Scheme: hsm.SchemePKCS11, Token: "none"}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				if _, err := d.Open(t.Context(), none); !errors.Is(err, hsm.ErrNoToken) {
					t.Error(err)
				}
				if _, err := d.List(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		s, err := tok.Signer(t.Context(), slot.URI, nil, hsmtest.Typing(t, testPIN))
		if err != nil {
			t.Error(err)
			break
		}
		if _, err := s.Sign(rand.Reader, sum[:], crypto.SHA256); err != nil {
			t.Error(err)
		}
		if err := tok.Lock(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}

// TestSharedLibrary: a library that another part of the program has set up is
// used as it is, and left so.
func TestSharedLibrary(t *testing.T) {
	soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: testLabel, PIN: testPIN})
	other := spyOn(t, soft, testLabel) // sets it up, and has a login
	d := New(Options{Modules: []Module{{Path: soft.Module}}})
	d.pause = 0
	tok := openToken(t, d)
	if !tok.Unlocked() {
		if err := tok.Unlock(t.Context(), nil); err != nil {
			t.Errorf("logged in by the other part, and asked all the same: %v", err)
		}
	}
	if _, err := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: "none"}); !errors.Is(err, hsm.ErrNoToken) {
		t.Error(err)
	}
	if err := tok.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := other.GetSessionInfo(other.sh); err != nil {
		t.Errorf("the other part's session: %v", err)
	}
	if err := other.Finalize(); err != nil {
		t.Error(err)
	}
}

// TestOpeningIsOfItsTime: what the opening of a token read is good for a moment
// from when it was read, not from when the last library had answered, and not once
// it was read again.
func TestOpeningIsOfItsTime(t *testing.T) {
	soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: testLabel, PIN: testPIN})
	other := need.File(t, "/usr/lib/x86_64-linux-gnu/opensc-pkcs11.so", "/usr/lib/aarch64-linux-gnu/opensc-pkcs11.so",
		"/usr/lib64/opensc-pkcs11.so")
	open := func(locks string) *device {
		d := New(Options{Modules: []Module{{Path: soft.Module}, {Path: other}}, LockDir: locks})
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		tok, err := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: testLabel})
		must.OK(t, err)
		return tok.(*token).d
	}

	slow, err := newLock(t.TempDir(), p11kit.Real(other))
	must.OK(t, err)
	held, answered := make(chan struct{}), make(chan error)
	go func() {
		answered <- slow.exclusive(t.Context(), func() error {
			close(held)
			<-time.After(5 * justSeen) // as long as a slow library takes
			return nil
		})
	}()
	<-held
	d := open(filepath.Dir(slow.path))
	must.OK(t, <-answered)
	if _, ok := d.opening(); ok || time.Since(d.seen) < justSeen {
		t.Error("what was read long ago counts as just read")
	}

	d = open("")
	d.read = time.Now() // however slow this machine is
	if _, err := d.describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := d.opening(); ok {
		t.Error("it was read again since")
	}
}
