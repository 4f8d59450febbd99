package token

import (
	"context"
	"crypto"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

// lockedMeanwhile is a token that is locked while it answers.
type lockedMeanwhile struct {
	worker.Token
	lock func()
}

func (l lockedMeanwhile) Unlock(context.Context, hsm.Prompter) error {
	l.lock()
	return nil
}

func (l lockedMeanwhile) Unlocked() bool {
	l.lock()
	return true
}

func (lockedMeanwhile) Lock() error  { return nil }
func (lockedMeanwhile) Close() error { return nil }

// oneToken is where that token comes from.
type oneToken struct {
	worker.Tokens
	token worker.Token
}

func (o oneToken) Open(context.Context, hsm.URI) (worker.Token, error) { return o.token, nil }

func (oneToken) Removed(ctx context.Context, _ worker.Token) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestLockWhileItAnswers: what a token said before it was locked does not count
// after: its unlock window does not begin.
func TestLockWhileItAnswers(t *testing.T) {
	for name, f := range map[string]func(*Held) error{
		"unlock": func(h *Held) error { return h.Unlock(t.Context(), Use{}, func(error) {}) },
		"window": func(h *Held) error {
			_, err := h.open(t.Context())
			h.Window(time.Now())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var h *Held
			token := &lockedMeanwhile{lock: func() { check(t, h.Lock("")) }}
			h = newHeld(hsm.URI{}, Options{Tokens: oneToken{token: token}})
			check(t, f(h))
			if since, _, ok := h.Window(time.Now()); ok {
				t.Errorf("unlocked since %s", since)
			}
		})
	}
}

// pulled is a token whose first handle is dead when its key is looked for, and which is
// pulled out whenever it signs.
type pulled struct {
	lockedMeanwhile
	opened, signed int
}

func (p *pulled) Signer(context.Context, hsm.URI, crypto.PublicKey, hsm.Prompter) (crypto.Signer, error) {
	if p.opened == 1 {
		return nil, hsm.ErrRemoved
	}
	return pulledKey{token: p}, nil
}

// pulledKey is its key.
type pulledKey struct {
	crypto.Signer
	token *pulled
}

func (k pulledKey) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	k.token.signed++
	return nil, hsm.ErrRemoved
}

// pulledTokens is where that token comes from.
type pulledTokens struct {
	oneToken
	token *pulled
}

func (p pulledTokens) Open(context.Context, hsm.URI) (worker.Token, error) {
	p.token.opened++
	return p.token, nil
}

// TestSignatureIsTriedOnce: a token that was put in again is opened again for its key. A
// signature that fails is not tried again, as a person may have touched the token for it.
func TestSignatureIsTriedOnce(t *testing.T) {
	token := &pulled{}
	h := newHeld(hsm.URI{}, Options{Tokens: pulledTokens{token: token}})
	for i := range 2 {
		key, err := h.Signer(t.Context(), Use{}, hsm.URI{}, nil)
		check(t, err)
		if _, err := key.Sign(nil, nil, nil); !errors.Is(err, hsm.ErrRemoved) {
			t.Error(err)
		}
		if token.opened != 2 || token.signed != i+1 {
			t.Errorf("opened %d times, asked for %d signatures, want 2 and %d", token.opened, token.signed, i+1)
		}
	}
	check(t, h.Lock(""))
}

// absent are tokens that cannot be opened.
type absent struct {
	worker.Tokens
	why error
}

func (a absent) Open(context.Context, hsm.URI) (worker.Token, error) { return nil, a.why }

// TestHintOfAbsence: a token that is not there is to be plugged in, unless something else is in the way.
func TestHintOfAbsence(t *testing.T) {
	for want, why := range map[string]error{
		"plug it in":        hint.With(hsm.ErrNoToken, "plug it in, or use another"),
		"start the service": hint.With(hsm.ErrNoToken, "start the service"),
	} {
		h := newHeld(hsm.URI{Scheme: hsm.SchemePIV, Serial: "1"}, Options{Tokens: absent{why: why}})
		if _, err := h.open(t.Context()); !errors.Is(err, hsm.ErrNoToken) || hint.Of(err) != want {
			t.Errorf("%v, hint %q, want %q", err, hint.Of(err), want)
		}
	}
}

// busyToken is where a token comes from that another program uses, or that does not answer that program.
type busyToken struct{ oneToken }

func (busyToken) Open(context.Context, hsm.URI) (worker.Token, error) { return nil, hsm.ErrBusy }

// waitsForTouch is a key whose token waits for its touch until ctx ends.
type waitsForTouch struct {
	crypto.Signer
	p   hsm.Prompter
	ctx context.Context
}

func (s waitsForTouch) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	defer s.p.Touch(s.ctx, hsm.TouchPrompt{})()
	<-s.ctx.Done()
	return nil, s.ctx.Err()
}

// TestStillWaitsForTouch: a token that cannot be opened since it waits for the touch of a signature that was given
// up is told as that. One that somebody else uses is not.
func TestStillWaitsForTouch(t *testing.T) {
	for _, touched := range []bool{false, true} {
		h := newHeld(hsm.URI{}, Options{Tokens: busyToken{}})
		ctx, cancel := context.WithCancel(t.Context())
		w := newTouches(ctx)
		u := Use{Ask: func(context.Context, ask.Question) (ask.Answer, error) {
			cancel()
			return ask.Answer{}, nil
		}}
		if touched {
			cancel()
		} else {
			s := touchedSigner{waitsForTouch{p: h.ask(u, w).Prompter(), ctx: ctx}, h, w, u.Ask}
			if _, err := s.Sign(nil, nil, nil); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		_, err := h.open(t.Context())
		if !errors.Is(err, hsm.ErrBusy) || strings.Contains(hint.Of(err), "touch it") == touched {
			t.Errorf("touched: %t: %v (hint: %s)", touched, err, hint.Of(err))
		}
	}
}
