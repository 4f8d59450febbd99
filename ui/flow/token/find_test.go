package token

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestMakes: a card that says what it cannot do is believed before anybody is asked. A library
// says it itself.
func TestMakes(t *testing.T) {
	lacks := func(i *hsm.TokenInfo) {
		i.Can.Lack, i.Can.Policies = hsm.Lack{Algorithms: string(hsm.RSA2048), Why: "it is old"}, false
	}
	w := card(t)
	w.Card.Describe(lacks)
	makes := func(o hsm.GenerateOptions) error {
		return Keys{w.Env}.Makes(t.Context(), w.Card.Info().URI(), o)
	}
	if err := makes(hsm.GenerateOptions{Algorithm: hsm.ECDSAP256}); err != nil {
		t.Error(err)
	}
	for want, o := range map[string]hsm.GenerateOptions{"--algorithm": {Algorithm: hsm.RSA2048},
		"leave out --pin-policy": {Algorithm: hsm.ECDSAP256, Touch: hsm.TouchAlways}} {
		if err := makes(o); !errors.Is(err, hsm.ErrUnsupported) || !strings.Contains(hinting.Of(err), want) {
			t.Errorf("%v, hint %q, want %q", err, hinting.Of(err), want)
		}
	}
	w.Card.Unplug()
	if err := makes(hsm.GenerateOptions{Algorithm: hsm.ECDSAP256}); !errors.Is(err, hsm.ErrNoToken) {
		t.Errorf("a card that is gone: %v", err)
	}
	w = flowtest.NewWorld(t, hsm.SchemePKCS11, hsmtest.FakeOptions{}, "")
	w.Card.Describe(lacks)
	if err := makes(hsm.GenerateOptions{Algorithm: hsm.RSA2048}); err != nil {
		t.Errorf("of a library: %v", err)
	}
}

// TestDeletable: nobody confirms the loss of a key that a token does not delete.
func TestDeletable(t *testing.T) {
	w := certified(t)
	if err := loss(t, w, "9a").Deletable(); err != nil {
		t.Error(err)
	}
	w.Card.Describe(func(i *hsm.TokenInfo) { i.Can.Delete = false })
	if err := loss(t, w, "9a").Deletable(); !errors.Is(err, hsm.ErrUnsupported) ||
		!strings.Contains(hinting.Of(err), "--overwrite") {
		t.Errorf("%v, hint %q", err, hinting.Of(err))
	}
}

// held counts the tokens that are open.
type held struct {
	hsm.Driver
	open int
}

type heldToken struct {
	hsm.Token
	of *held
}

func (h *held) Open(ctx context.Context, u hsm.URI) (hsm.Token, error) {
	t, err := h.Driver.Open(ctx, u)
	if err != nil {
		return nil, err
	}
	h.open++
	return heldToken{t, h}, nil
}

func (t heldToken) Close() error {
	t.of.open--
	return t.Token.Close()
}

// TestFindHidden: a token is unlocked for what it hides, and held until that is deleted. What
// it shows costs no PIN, and neither does what a card does not have.
func TestFindHidden(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePKCS11, hsmtest.FakeOptions{}, "")
	made := w.Generate(hsm.GenerateOptions{Label: "halved"})
	driver := &held{Driver: w.Env.Drivers[0]}
	w.Env.Drivers = hsm.Drivers{driver}
	k := Keys{w.Env}
	find := func(u hsm.URI, open int, answers ...hsmtest.Answer) (Loss, func() error, error) {
		t.Helper()
		lock(t, w)
		script := hsmtest.NewScript(t, answers...)
		l, done, err := k.Find(t.Context(), u, script)
		if driver.open != open {
			t.Errorf("%d tokens are open, want %d", driver.open, open)
		}
		if pins := script.PINs(); slices.ContainsFunc(pins, func(p hsm.PINPrompt) bool {
			return p.Purpose.Action != "see private keys"
		}) {
			t.Errorf("asked: %+v", pins)
		}
		return l, done, err
	}
	if l, done, err := find(made.URI, 0); err != nil || len(l.Slots) != 1 || done() != nil {
		t.Errorf("what is shown: %+v, %v", l, err)
	}

	hidden := true
	hide := func(_ context.Context, op hsmtest.Op) error {
		switch {
		case op == hsmtest.OpUnlock:
			hidden = false
		case op == hsmtest.OpSlots && hidden:
			return hsm.ErrNoKey
		}
		return nil
	}
	w.Card.Before(hide)
	if _, done, err := find(made.URI, 0, hsmtest.Cancel()); !errors.Is(err, hsm.ErrCancelled) || done() != nil {
		t.Errorf("cancelled: %v", err)
	}
	if driver.open != 0 || !hidden {
		t.Errorf("cancelled: %d open, hidden %t", driver.open, hidden)
	}
	l, done, err := find(made.URI, 1, hsmtest.PIN(w.Card.PIN()))
	if err != nil || len(l.Slots) != 1 || !hsm.SameKey(l.Slots[0].Key.Public, made.Key.Public) {
		t.Fatalf("with the PIN: %+v, %v", l, err)
	}
	if err := errors.Join(k.Delete(t.Context(), made.URI, l, hsmtest.NewScript(t)), done()); err != nil {
		t.Errorf("deleted: %v", err)
	}
	if driver.open != 0 {
		t.Errorf("%d tokens stay open", driver.open)
	}
	hidden = true
	if _, _, err := find(made.URI, 0, hsmtest.PIN(w.Card.PIN())); !errors.Is(err, hsm.ErrNoKey) {
		t.Errorf("what is not there: %v", err)
	}

	w = certified(t)
	k, driver = Keys{w.Env}, &held{Driver: w.Env.Drivers[0]}
	w.Env.Drivers = hsm.Drivers{driver}
	if _, _, err := find(at(w, "9e"), 0); !errors.Is(err, hsm.ErrNoKey) {
		t.Errorf("a card's empty slot: %v", err)
	}
}
