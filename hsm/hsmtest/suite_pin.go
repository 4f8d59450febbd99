package hsmtest

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

func testUnlock(t *testing.T, b *bench) {
	tok := b.open(t)
	tries := b.tries()
	p := NewScript(t, PIN(b.WrongPIN), PIN(b.PIN))
	must.OK(t, tok.Unlock(t.Context(), p))
	if !tok.Unlocked() {
		t.Fatal("locked after Unlock")
	}
	asked := p.PINs()
	if len(asked) != 2 || asked[0].Again != "" || asked[1].Again == "" {
		t.Fatalf("want a question and one more with the reason: %+v", asked)
	}
	if !reflect.DeepEqual(asked[0].Purpose, hsm.Purpose{}) || !b.Token.MatchToken(asked[0].Token) {
		t.Errorf("the prompt names another token, or a purpose that only callers know: %+v", asked[0])
	}
	if k := asked[0].Kind; k != hsm.UserPIN && k != hsm.PIVPIN {
		t.Errorf("asked for the %s", k)
	}
	if tries > 0 && (asked[0].Retries != tries || asked[1].Retries != tries-1) {
		t.Errorf("retries shown: %d, %d; the token has %d, %d", asked[0].Retries, asked[1].Retries, tries, tries-1)
	}
	if err := tok.Unlock(t.Context(), NewScript(t)); err != nil {
		t.Errorf("Unlock when unlocked: %v", err)
	}
	b.wantTries(t, tries)
}

func testUnlockCancelled(t *testing.T, b *bench) {
	tok := b.open(t)
	tries := b.tries()
	wantErr(t, tok.Unlock(t.Context(), NewScript(t, Cancel())), hsm.ErrCancelled)
	wantErr(t, tok.Unlock(t.Context(), NewScript(t, Fail(hsm.ErrNoTerminal))), hsm.ErrNoTerminal)

	ctx, cancel := context.WithCancel(t.Context())
	up := make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- tok.Unlock(ctx, NewScript(t, Hang(up))) }()
	<-up
	if _, err := tok.Info(t.Context()); err != nil {
		t.Errorf("Info while a prompt is up: %v", err)
	}
	cancel()
	wantErr(t, <-done, context.Canceled)
	if tok.Unlocked() {
		t.Error("unlocked without a PIN")
	}
	b.wantTries(t, tries)
	// One refused PIN counts once, and giving up afterwards costs no more.
	wantErr(t, tok.Unlock(t.Context(), NewScript(t, PIN(b.WrongPIN), Cancel())), hsm.ErrCancelled)
	if tries > 0 {
		b.wantTries(t, tries-1)
	}
	must.OK(t, tok.Unlock(t.Context(), NewScript(t, PIN(b.PIN))))
	b.wantTries(t, tries)
}

func testUnlockNobody(t *testing.T, b *bench) {
	tok := b.open(t)
	wantErr(t, tok.Unlock(t.Context(), nil), hsm.ErrPINRequired)
	slot := b.generate(t, tok, b.Algorithms[0])
	lock(t, tok)
	s, err := tok.Signer(t.Context(), slot.URI, slot.Key.Public, nil)
	if err == nil {
		_, err = trySign(s)
	}
	wantErr(t, err, hsm.ErrPINRequired)
}

func testUnlockOTP(t *testing.T, b *bench) {
	tok := b.open(t)
	tries := b.tries()
	otp := "cccccckdvvulgjvtkjdhtlrbjjctggdihuevikehtlil"
	p := NewScript(t, PIN(otp), PIN(""), PIN(b.PIN))
	must.OK(t, tok.Unlock(t.Context(), p))
	if asked := p.PINs(); !strings.Contains(asked[1].Again, "one-time password") {
		t.Errorf("no word about the one-time password: %q", asked[1].Again)
	}
	b.wantTries(t, tries)
}

// testUnlockControl: what no PIN can be is never presented.
func testUnlockControl(t *testing.T, b *bench) {
	tok := b.open(t)
	tries := b.tries()
	p := NewScript(t, PIN(b.PIN[:len(b.PIN)-1]+"\t"), PIN("\x1b[200~"+b.PIN[:1]), PIN(b.PIN))
	must.OK(t, tok.Unlock(t.Context(), p))
	asked := p.PINs()
	for _, a := range asked[1:] {
		if !strings.Contains(a.Again, "control character") || a.Retries != asked[0].Retries {
			t.Errorf("asked again with %q, %d tries left; %d before", a.Again, a.Retries, asked[0].Retries)
		}
	}
	b.wantTries(t, tries)
}

func testUnlockLastTry(t *testing.T, b *bench) {
	b.wantTries(t, 3)
	tok := b.open(t)
	wantErr(t, tok.Unlock(t.Context(), NewScript(t, PIN(b.WrongPIN), PIN(b.WrongPIN), No())), hsm.ErrCancelled)
	b.wantTries(t, 1)
	must.OK(t, tok.Unlock(t.Context(), NewScript(t, Yes(), PIN(b.PIN))))
	b.wantTries(t, 3)
	lock(t, tok)
	wantErr(t, tok.Unlock(t.Context(), NewScript(t, PIN(b.WrongPIN), PIN(b.WrongPIN), Yes(), PIN(b.WrongPIN))),
		hsm.ErrPINLocked)
	b.wantTries(t, 0)
	wantErr(t, tok.Unlock(t.Context(), NewScript(t)), hsm.ErrPINLocked)
	if info, err := tok.Info(t.Context()); err != nil || !info.PIN.Locked {
		t.Errorf("info of a locked token: %+v, %v", info.PIN, err)
	}
}

// testUnlockOnceForAll: many that need the PIN at once ask for it once.
func testUnlockOnceForAll(t *testing.T, b *bench) {
	tok := b.open(t)
	p := NewScript(t, PIN(b.PIN))
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { errs[i] = tok.Unlock(t.Context(), p) })
	}
	wg.Wait()
	must.OK(t, errors.Join(errs...))
}

func testLock(t *testing.T, b *bench) {
	tok := b.open(t)
	slot := b.generate(t, tok, b.Algorithms[0])
	if !tok.Unlocked() {
		must.OK(t, tok.Unlock(t.Context(), Typing(t, b.PIN)))
	}
	lock(t, tok)
	if err := tok.Lock(); err != nil {
		t.Errorf("Lock when locked: %v", err)
	}
	p := NewScript(t, PIN(b.PIN))
	signOne(t, b.signer(t, tok, slot, p))
	if n := len(p.PINs()); n != 1 {
		t.Errorf("asked %d times after Lock, want once", n)
	}
}
