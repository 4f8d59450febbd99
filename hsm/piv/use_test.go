//go:build cgo || windows

package piv

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// TestLeavesNothingProved: whatever the card can do to forget, it has forgotten
// PIN and management key after every operation.
func TestLeavesNothingProved(t *testing.T) {
	for name, lacks := range map[string]vcard.Feature{
		"all": 0, "no deverify": vcard.Deverify, "no other applications": vcard.OtherApps,
		"nothing but a reset": vcard.Deverify | vcard.OtherApps, "silent about it": vcard.Status | vcard.Deverify,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, vcard.Config{Without: lacks})
			must.OK(t, r.tok.Unlock(t.Context(), typing(t)))
			r.forgotten(t, "after Unlock")
			r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
			r.forgotten(t, "after Generate")
			must.OK(t, sign(r.signer(t, "9a", nil)))
			r.forgotten(t, "after Sign")
		})
	}
}

// TestLockClearsForeignVerification: another program's PIN is forgotten too.
func TestLockClearsForeignVerification(t *testing.T) {
	r := newRig(t, vcard.Config{})
	c, err := pcsc.New().Connect(t.Context(), r.lab.Reader(0), r.d.cards.patience)
	must.OK(t, err)
	s, err := applet.Open(t.Context(), new(applet.Operation), c)
	must.OK(t, err)
	must.OK(t, s.PINs.Verify(hsm.NewSecret([]byte(vcard.DefaultPIN))))
	must.OK(t, c.End(false))
	if !r.card.Verified() {
		t.Fatal("not verified: the test tests nothing")
	}
	must.OK(t, r.tok.Lock())
	r.forgotten(t, "after Lock")
}

func TestPolicies(t *testing.T) {
	r := newRig(t, vcard.Config{})
	for _, pin := range []hsm.PINPolicy{hsm.PINNever, hsm.PINOnce, hsm.PINAlways} {
		for _, touch := range []hsm.TouchPolicy{hsm.TouchNever, hsm.TouchCached, hsm.TouchAlways} {
			slot := r.generate(t, hsm.GenerateOptions{Slot: "9c", PIN: pin, Touch: touch, Overwrite: true}, typing(t))
			if slot.Key.PIN != pin || slot.Key.Touch != touch {
				t.Errorf("made with %s, %s: %+v", pin, touch, slot.Key)
			}
			must.OK(t, r.tok.Lock())
			var answers []hsmtest.Answer
			if pin != hsm.PINNever {
				answers = append(answers, hsmtest.PIN(vcard.DefaultPIN))
			}
			p := hsmtest.NewScript(t, answers...)
			s := r.signer(t, "9c", p)
			for range 3 {
				must.OK(t, sign(s))
			}
			touches := len(p.Prompts()) - len(p.PINs())
			if shown := map[bool]int{true: 3, false: 0}[touch != hsm.TouchNever]; touches != shown || p.Waiting() != 0 {
				t.Errorf("%s, %s: %d touch prompts, %d still up", pin, touch, touches, p.Waiting())
			}
		}
	}
}

func TestTouchNeverComes(t *testing.T) {
	r := newRig(t, vcard.Config{})
	r.generate(t, hsm.GenerateOptions{Slot: "9a", Touch: hsm.TouchAlways}, typing(t))
	r.card.SetTouch(func(byte, <-chan struct{}) bool { return false })
	p := typing(t)
	err := sign(r.signer(t, "9a", p))
	want(t, err, hsm.ErrTouchTimeout)
	if hint.Of(err) == "" || p.Waiting() != 0 {
		t.Errorf("hint %q, %d prompts still up", hint.Of(err), p.Waiting())
	}
	r.forgotten(t, "after a missed touch")
	r.card.SetTouch(func(byte, <-chan struct{}) bool { return true })
	must.OK(t, sign(r.signer(t, "9a", nil)))
}

// TestGiveUpWaitingForTouch: a cancelled signature returns at once, its
// prompt goes away, and the next operation waits until the card is free again.
func TestGiveUpWaitingForTouch(t *testing.T) {
	r := newRig(t, vcard.Config{})
	slot := r.generate(t, hsm.GenerateOptions{Slot: "9a", Touch: hsm.TouchAlways}, typing(t))
	blinking, missed := make(chan struct{}), make(chan struct{})
	r.card.SetTouch(func(byte, <-chan struct{}) bool { close(blinking); <-missed; return false })
	ctx, cancel := context.WithCancel(t.Context())
	p := typing(t)
	s, err := r.tok.Signer(ctx, slot.URI, nil, slowLine{p})
	must.OK(t, err)
	done := make(chan error, 1)
	go func() { done <- sign(s) }()
	<-blinking
	if p.Waiting() != 1 {
		t.Errorf("%d touch prompts are up while the card blinks", p.Waiting())
	}
	cancel()
	want(t, <-done, context.Canceled)
	if p.Waiting() != 0 {
		t.Error("the prompt is still up when it is heard that the signature was given up")
	}
	info := make(chan error, 1)
	go func() { _, err := r.tok.Info(t.Context()); info <- err }()
	close(missed)
	must.OK(t, <-info)
	r.forgotten(t, "after giving up")
}

// slowLine takes a touch prompt down as slowly as a busy terminal does.
type slowLine struct{ hsm.Prompter }

func (l slowLine) Touch(ctx context.Context, p hsm.TouchPrompt) func() {
	down := l.Prompter.Touch(ctx, p)
	return func() { <-time.After(50 * time.Millisecond); down() }
}

// TestKilledWhileBlinking: a program that is killed while the card waits for a
// touch leaves it busy until it answers, and nothing proved on it then.
func TestKilledWhileBlinking(t *testing.T) {
	r := newRig(t, vcard.Config{})
	r.generate(t, hsm.GenerateOptions{Slot: "9a", Touch: hsm.TouchAlways}, typing(t))
	blinking, missed := make(chan struct{}), make(chan struct{})
	r.card.SetTouch(func(byte, <-chan struct{}) bool { close(blinking); <-missed; return false })
	self, err := os.Executable()
	must.OK(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), signVar+"=1")
	cmd.Stderr = os.Stderr
	must.OK(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the process is killed
		close(ended)
	}()
	select {
	case <-blinking:
	case <-ended:
		t.Fatal("it ended before the card blinked")
	}
	must.OK(t, cmd.Process.Kill())
	<-ended
	r.d.cards.patience = 50 * time.Millisecond
	_, err = r.tok.Info(t.Context())
	want(t, err, hsm.ErrBusy)
	close(missed)
	r.d.cards.patience = 20 * time.Second
	_, err = r.tok.Info(t.Context())
	must.OK(t, err)
	r.forgotten(t, "after a killed program")
	if left, _ := r.card.PINRetries(); left != 3 {
		t.Errorf("%d tries left", left)
	}
}

func TestPulledOutWhileBlinking(t *testing.T) {
	r := newRig(t, vcard.Config{})
	r.generate(t, hsm.GenerateOptions{Slot: "9a", Touch: hsm.TouchAlways}, typing(t))
	r.card.SetTouch(func(_ byte, gone <-chan struct{}) bool { r.lab.Yank(0); <-gone; return false })
	want(t, sign(r.signer(t, "9a", typing(t))), hsm.ErrRemoved)
	if r.tok.Unlocked() {
		t.Error("unlocked without a card")
	}
}

// TestStalePIN: a PIN that was changed by another program costs one try at
// most, and never the last one.
func TestStalePIN(t *testing.T) {
	r := newRig(t, vcard.Config{})
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
	must.OK(t, sign(r.signer(t, "9a", typing(t))))
	r.card.SetPIN("222222")
	must.OK(t, sign(r.signer(t, "9a", hsmtest.NewScript(t, hsmtest.PIN("222222")))))

	r.card.SetPIN("333333")
	r.card.SetPINRetries(1)
	want(t, sign(r.signer(t, "9a", hsmtest.NewScript(t, hsmtest.No()))), hsm.ErrCancelled)
	if left, _ := r.card.PINRetries(); left != 1 {
		t.Fatalf("%d tries left: the last one was spent", left)
	}
	must.OK(t, sign(r.signer(t, "9a", hsmtest.NewScript(t, hsmtest.Yes(), hsmtest.PIN("333333")))))
}

// slow is a person who types while wrong PINs are tried elsewhere.
type slow struct {
	*hsmtest.Script
	meanwhile func()
}

func (s slow) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	s.meanwhile()
	return s.Script.PIN(ctx, p)
}

// TestTriesSpentMeanwhile: what another program leaves of the tries while a PIN is
// typed is not spent as if nothing had been.
func TestTriesSpentMeanwhile(t *testing.T) {
	r := newRig(t, vcard.Config{})
	spend := slow{hsmtest.NewScript(t, hsmtest.PIN("999999"), hsmtest.No()), func() { r.card.SetPINRetries(1) }}
	want(t, r.tok.Unlock(t.Context(), spend), hsm.ErrCancelled)
	r.card.SetPINRetries(3)
	spend.Script = hsmtest.NewScript(t, hsmtest.PIN(vcard.DefaultPIN), hsmtest.PIN("246802"), hsmtest.No())
	want(t, r.tok.ChangePIN(t.Context(), hsm.PIVPIN, spend), hsm.ErrCancelled)
	if left, _ := r.card.PINRetries(); left != 1 {
		t.Errorf("%d tries left", left)
	}

	other := r.open(t, hsm.URI{Scheme: hsm.SchemePIV})
	wrong := func() {
		if _, left := r.card.PINRetries(); left > 1 {
			p := hsmtest.NewScript(t, hsmtest.PIN("99999999"), hsmtest.PIN("246802"), hsmtest.PIN("99999999"), hsmtest.No())
			want(t, other.Unblock(t.Context(), p), hsm.ErrCancelled)
		}
	}
	spend = slow{hsmtest.NewScript(t, hsmtest.PIN(vcard.DefaultPUK), hsmtest.PIN("246802"), hsmtest.No()), wrong}
	want(t, r.tok.Unblock(t.Context(), spend), hsm.ErrCancelled)
	if _, left := r.card.PINRetries(); left != 1 {
		t.Errorf("%d tries of the PUK left", left)
	}
}

// TestSwappedCard: nothing meant for one card reaches another, or one without PIV.
func TestSwappedCard(t *testing.T) {
	for name, config := range map[string]vcard.Config{"another": {Serial: 87654321}, "foreign": {Without: vcard.PIV}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, vcard.Config{})
			r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
			s := r.signer(t, "9a", typing(t))
			must.OK(t, sign(s))
			other := vcard.New(config)
			r.lab.Insert(t, 0, other)
			want(t, sign(s), hsm.ErrRemoved)
			if n := other.Count(vcard.INSVerify); n != 0 {
				t.Errorf("the PIN was sent to another card %d times", n)
			}
			// It comes back in another reader, and wants the PIN again.
			r.lab.Insert(t, 1, r.card)
			p := hsmtest.NewScript(t, hsmtest.PIN(vcard.DefaultPIN))
			must.OK(t, sign(r.signer(t, "9a", p)))
			if info, err := r.tok.Info(t.Context()); err != nil || info.Reader != r.lab.Reader(1) {
				t.Errorf("found in %q, %v", info.Reader, err)
			}
		})
	}
}

// TestReplugged: taking the card out locks it, also when nobody looked.
func TestReplugged(t *testing.T) {
	r := newRig(t, vcard.Config{})
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
	must.OK(t, r.tok.Unlock(t.Context(), typing(t)))
	r.lab.Remove(t, 0)
	r.lab.Insert(t, 0, r.card)
	p := hsmtest.NewScript(t, hsmtest.PIN(vcard.DefaultPIN))
	must.OK(t, sign(r.signer(t, "9a", p)))
}

// TestRestartedService: a stale handle is nothing that could be held.
func TestRestartedService(t *testing.T) {
	r := newRig(t, vcard.Config{})
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
	r.lab.StopDaemon()
	_, err := r.tok.Info(t.Context())
	want(t, err, pcsc.ErrNoService)
	must.OK(t, r.lab.StartDaemon())
	r.lab.Insert(t, 0, r.card)
	must.OK(t, sign(r.signer(t, "9a", typing(t))))
}
