//go:build cgo || windows

package piv

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebfe/scard"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// TestOddReaders: an empty reader and a foreign card are named, and hide nothing.
func TestOddReaders(t *testing.T) {
	lab := vcard.ForTest(t)
	d := New(Options{})
	l, err := d.List(t.Context())
	must.OK(t, err)
	if len(l.Tokens) != 0 || len(l.Problems) != vcard.Slots || !errors.Is(l.Problems[0].Err, pcsc.ErrNoCard) {
		t.Errorf("empty readers: %+v", l)
	}
	_, err = d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePIV})
	want(t, err, pcsc.ErrNoCard)

	lab.Insert(t, 0, vcard.New(vcard.Config{Without: vcard.PIV}))
	lab.Insert(t, 1, vcard.New(vcard.Config{}))
	l, err = d.List(t.Context())
	must.OK(t, err)
	if len(l.Tokens) != 1 || l.Tokens[0].Reader != lab.Reader(1) || l.Tokens[0].Firmware != "5.7.1" {
		t.Errorf("tokens %+v", l.Tokens)
	}
	if len(l.Problems) != 1 || l.Problems[0].Source != lab.Reader(0) ||
		!errors.Is(l.Problems[0].Err, hsm.ErrUnsupported) ||
		!strings.Contains(l.Problems[0].Err.Error(), "no PIV card") {
		t.Errorf("problems %+v", l.Problems)
	}
}

// TestBusy: a card that another program holds, connected exclusively or in a
// transaction, is busy, not gone, and works again at once when it is free.
func TestBusy(t *testing.T) {
	r := newRig(t, vcard.Config{})
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
	must.OK(t, r.tok.Unlock(t.Context(), typing(t)))
	patience := r.d.cards.patience
	ctx, err := scard.EstablishContext()
	must.OK(t, err)
	defer ctx.Release()
	for name, mode := range map[string]scard.ShareMode{"exclusive": scard.ShareExclusive,
		"transaction": scard.ShareShared} {
		t.Run(name, func(t *testing.T) {
			c, err := ctx.Connect(r.lab.Reader(0), mode, scard.ProtocolAny)
			must.OK(t, err)
			must.OK(t, c.BeginTransaction())
			r.d.cards.patience = 50 * time.Millisecond
			err = sign(r.signerQuietly())
			want(t, err, hsm.ErrBusy)
			if hint.Of(err) == "" {
				t.Error("no hint")
			}
			l, err := r.d.List(t.Context())
			must.OK(t, err)
			if len(l.Tokens) != 0 || len(l.Problems) != 2 || !errors.Is(l.Problems[0].Err, hsm.ErrBusy) {
				t.Errorf("listed as %+v", l)
			}
			_, err = r.d.Open(t.Context(), r.tok.card.about().URI())
			want(t, err, hsm.ErrBusy)
			r.d.cards.patience = patience
			must.OK(t, c.EndTransaction(scard.LeaveCard))
			must.OK(t, c.Disconnect(scard.LeaveCard))
			must.OK(t, sign(r.signer(t, "9a", nil)))
		})
	}
}

// signerQuietly is a signer made without the card.
func (r *rig) signerQuietly() *signer {
	return &signer{ctx: context.Background(), t: r.tok, slot: 0x9a, code: codeP256,
		key: hsm.Key{Algorithm: hsm.ECDSAP256, Public: r.card.Public(0x9a)}}
}

// TestBusyForAMoment: a card that is held shortly is waited for.
func TestBusyForAMoment(t *testing.T) {
	r := newRig(t, vcard.Config{})
	r.d.cards.patience = 20 * time.Second
	ctx, err := scard.EstablishContext()
	must.OK(t, err)
	defer ctx.Release()
	c, err := ctx.Connect(r.lab.Reader(0), scard.ShareExclusive, scard.ProtocolAny)
	must.OK(t, err)
	done := make(chan error, 1)
	go func() { _, err := r.tok.Info(t.Context()); done <- err }()
	select {
	case err := <-done:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(100 * time.Millisecond): // long enough to have met the other program
	}
	must.OK(t, c.Disconnect(scard.LeaveCard))
	must.OK(t, <-done)
}

// TestResetByAnother: a reset by another program is no event.
func TestResetByAnother(t *testing.T) {
	r := newRig(t, vcard.Config{})
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
	s := r.signer(t, "9a", typing(t))
	must.OK(t, sign(s))
	ctx, err := scard.EstablishContext()
	must.OK(t, err)
	defer ctx.Release()
	c, err := ctx.Connect(r.lab.Reader(0), scard.ShareShared, scard.ProtocolAny)
	must.OK(t, err)
	must.OK(t, c.Disconnect(scard.ResetCard))
	must.OK(t, sign(s))
}

// TestIdentity: what a card is known by when it tells less and less.
func TestIdentity(t *testing.T) {
	guid := [16]byte{0xca, 0xfe, 15: 1}
	t.Run("GUID", func(t *testing.T) {
		r := newRig(t, vcard.Config{Without: vcard.Serial | vcard.Version, CHUID: &guid})
		if got := r.tok.card.about().Serial; got != "cafe0000000000000000000000000001" {
			t.Errorf("serial %q", got)
		}
		again := r.open(t, r.tok.card.about().URI())
		if again.card.about().Serial != r.tok.card.about().Serial {
			t.Error("its own URI opens another")
		}
	})
	t.Run("christened", func(t *testing.T) {
		r := newRig(t, vcard.Config{Without: vcard.Serial | vcard.Version | vcard.Metadata})
		if r.tok.card.about().Serial != "" {
			t.Fatalf("a card without anything is %q", r.tok.card.about().Serial)
		}
		slot := r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
		if len(slot.URI.Serial) != 32 {
			t.Fatalf("after the first key it is %s", slot.URI)
		}
		must.OK(t, sign(r.signer(t, "9a", typing(t))))
		if r.open(t, slot.URI).card.about().Serial != slot.URI.Serial {
			t.Error("the slot's URI opens another")
		}
	})
	t.Run("key", func(t *testing.T) {
		r := newRig(t, vcard.Config{Without: vcard.Serial | vcard.Version | vcard.Metadata})
		cert := selfSigned(t)
		r.place(0x9a, cert.Raw)
		tok := r.open(t, hsm.URI{Scheme: hsm.SchemePIV})
		if tok.card.about().Serial != applet.KeyIdentity(cert) {
			t.Errorf("serial %q", tok.card.about().Serial)
		}
	})
}

// failing are systems that fail as PC/SC does.
type failing struct{ err error }

func (f failing) Readers() ([]pcsc.Reader, error) { return nil, f.err }
func (f failing) Connect(context.Context, string, time.Duration) (pcsc.Card, error) {
	return nil, f.err
}

// TestNoCardAtAll: the driver says why there is no card to work with.
func TestNoCardAtAll(t *testing.T) {
	for _, why := range []error{pcsc.ErrNoService, hsm.ErrDenied, pcsc.ErrNoReader} {
		d := New(Options{})
		d.cards.system = failing{why}
		_, err := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePIV, Serial: "1"})
		want(t, err, why)
		want(t, err, hsm.ErrNoToken)
	}
}

// seen are readers whose state changes.
type seen struct {
	failing
	readers atomic.Pointer[[]pcsc.Reader]
}

func (s *seen) Readers() ([]pcsc.Reader, error) { return *s.readers.Load(), nil }

// TestWatch: a change of the readers is told, and nothing else.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := new(seen)
		show := func(readers ...pcsc.Reader) { system.readers.Store(&readers) }
		show(pcsc.Reader{Name: "a", Present: true})
		d := New(Options{})
		d.cards.system = system
		for what, change := range []func(){
			func() { show(pcsc.Reader{Name: "a"}) },
			func() { show(pcsc.Reader{Name: "a", Present: true, Events: 1}) },
			func() { show(pcsc.Reader{Name: "a", Present: true, Events: 2}) },
			func() { show() },
		} {
			done := make(chan error, 1)
			go func() { done <- d.Watch(t.Context()) }()
			time.Sleep(10 * pollReaders)
			synctest.Wait()
			if len(done) != 0 {
				t.Fatalf("change %d: woke up before: %v", what, <-done)
			}
			change()
			must.OK(t, <-done)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		want(t, d.Watch(ctx), context.Canceled)
	})
}

func TestProduct(t *testing.T) {
	for _, c := range []struct {
		r    pcsc.Reader
		v    applet.Version
		want string
	}{
		{pcsc.Reader{Name: "Yubico YubiKey OTP+FIDO+CCID 00 00"}, applet.Version{5, 7, 1}, "YubiKey 5"},
		{pcsc.Reader{Name: "Some NFC reader", ATR: []byte("\x3b\x8dYubiKey\xc0")}, applet.Version{5, 4, 3}, "YubiKey 5"},
		{pcsc.Reader{Name: "canokeys.org OpenPGP PIV OATH 0"}, applet.Version{5, 7, 0}, "CanoKey"},
		{pcsc.Reader{Name: "Nitrokey Nitrokey 3 00 00"}, applet.Version{}, "Nitrokey"},
		{pcsc.Reader{Name: "Alcor Micro AU9540"}, applet.Version{}, "PIV card"},
	} {
		if _, got := product(c.r, c.v); got != c.want {
			t.Errorf("%s: %q, want %q", c.r.Name, got, c.want)
		}
	}
}
