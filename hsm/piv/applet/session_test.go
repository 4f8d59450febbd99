package applet

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

// defaultPIN is that of the cards here.
const defaultPIN = "123456"

// stubborn is a card with a PIN that it may refuse to forget.
type stubborn struct {
	verified         bool
	forgets, selects bool // VERIFY with P1 = FF, or a change of application, clears the PIN
	sent             []byte
	held             []byte // the last VERIFY's data, as the reader got it
	ended, reset     bool
}

func (c *stubborn) Transmit(apdu []byte) ([]byte, error) {
	ins, p1 := apdu[1], apdu[2]
	c.sent = append(c.sent, ins)
	switch {
	case ins == insSelect && !bytes.Contains(apdu, aidPIV) && c.selects:
		c.verified = false
	case ins == insVerify && p1 == 0xff && !c.forgets:
		return []byte{0x6a, 0x86}, nil
	case ins == insVerify && p1 == 0xff:
		c.verified = false
	case ins == insVerify && len(apdu) == 4: // the question how many tries are left
		if !c.verified {
			return []byte{0x63, 0xc3}, nil
		}
	case ins == insVerify:
		c.verified, c.held = true, apdu
	}
	return []byte{0x90, 0}, nil
}

func (c *stubborn) End(reset bool) error {
	c.ended, c.reset = true, reset
	return nil
}

// TestEndForgets: the card forgets the PIN by the mildest way that it knows.
func TestEndForgets(t *testing.T) {
	for name, c := range map[string]struct {
		card  *stubborn
		reset bool
	}{
		"the PIN alone":           {&stubborn{forgets: true}, false},
		"a change of application": {&stubborn{selects: true}, false},
		"a reset":                 {&stubborn{}, true},
	} {
		s, err := Open(t.Context(), new(Operation), c.card)
		must.OK(t, err)
		must.OK(t, s.PINs.Verify(hsm.NewSecret([]byte(defaultPIN))))
		if !s.PINs.Verified() {
			t.Errorf("%s: not verified", name)
		}
		if bytes.ContainsAny(c.card.held, defaultPIN) {
			t.Errorf("%s: the command with the PIN was not cleared: %x", name, c.card.held)
		}
		must.OK(t, s.End())
		if !c.card.ended || c.card.reset != c.reset || !c.reset && c.card.verified {
			t.Errorf("%s: %+v", name, c.card)
		}
		if last := c.card.sent[len(c.card.sent)-1]; c.card.forgets && last != insVerify {
			t.Errorf("%s: the session ended with %02x", name, last)
		}
	}
	card := &stubborn{}
	s, err := Open(t.Context(), new(Operation), card)
	must.OK(t, err)
	must.OK(t, s.End())
	if len(card.sent) != 1 || card.reset {
		t.Errorf("a card to which nothing was proved: %x", card.sent)
	}
}

// TestGiveUp: an operation that was given up sends nothing more and commits to nothing;
// one that has committed goes on.
func TestGiveUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	op, card := new(Operation), &stubborn{}
	s, err := Open(ctx, op, card)
	must.OK(t, err)
	shown := 0
	show := func() func() { shown++; return func() { shown-- } }
	done := op.Show(ctx, show)
	if shown != 1 {
		t.Error("nothing is shown")
	}
	cancel()
	if !op.GiveUp() || shown != 0 {
		t.Errorf("given up with %d lines shown", shown)
	}
	done()
	op.Show(ctx, show)()
	if shown != 0 {
		t.Errorf("%d lines shown in the end", shown)
	}
	if err := s.Commit(); !errors.Is(err, context.Canceled) {
		t.Errorf("committed after all: %v", err)
	}
	if err := s.PINs.Verify(hsm.NewSecret([]byte(defaultPIN))); !errors.Is(err, context.Canceled) || card.verified {
		t.Errorf("a PIN was presented after all: %v", err)
	}
	must.OK(t, s.End())

	ctx, cancel = context.WithCancel(t.Context())
	op = new(Operation)
	s, err = Open(ctx, op, card)
	must.OK(t, err)
	must.OK(t, s.Commit())
	must.OK(t, s.Commit())
	cancel()
	if op.GiveUp() {
		t.Error("what has committed was given up")
	}
	must.OK(t, s.PINs.Verify(hsm.NewSecret([]byte(defaultPIN))))
}

// endless says again and again that there is more, or that the length is wrong.
type endless struct {
	answer []byte
	sent   int
}

func (c *endless) Transmit([]byte) ([]byte, error) {
	c.sent++
	if c.answer[0] == statusBadLength {
		return []byte{statusBadLength, byte(c.sent)}, nil
	}
	return c.answer, nil
}

func (*endless) End(bool) error { return nil }

// TestMoreWithoutEnd: a card that promises more and brings nothing is not followed for ever.
func TestMoreWithoutEnd(t *testing.T) {
	for _, first := range []byte{statusMoreBytes, statusBadLength} {
		card := &endless{answer: []byte{first, 0x10}}
		if _, err := Open(t.Context(), new(Operation), card); err == nil || card.sent > 10 {
			t.Errorf("%02x: error %v after %d commands", first, err, card.sent)
		}
	}
}
