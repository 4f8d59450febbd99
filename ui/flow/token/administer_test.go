package token

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// card is a world with a card that can be administered, which has a key in 9a.
func card(t testing.TB) *flowtest.World {
	t.Helper()
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{Can: hsmtest.Administered()}, "")
	w.Generate(hsm.GenerateOptions{Slot: "9a"})
	return w
}

// try tries use cases on that card. After each, has says what is to be the case.
func try(t *testing.T, has string, got func(*flowtest.World) string, c flowtest.UseCase) {
	t.Helper()
	if c.World == nil {
		c.World = card
	}
	c.Done = func(t testing.TB, w *flowtest.World) {
		if now := got(w); now != has {
			t.Errorf("it has %q, want %q", now, has)
		}
	}
	c.Try(t)
}

// secrets are those of a card in one line.
func secrets(w *flowtest.World) string { return w.Card.PIN() + " " + w.Card.PUK() }

// content is what is in the slots.
func content(w *flowtest.World) string {
	var all []string
	for k, v := range w.State() {
		if name, ok := strings.CutPrefix(k, "slot "); ok {
			_, certificate, _ := strings.Cut(v, " certificate")
			if certificate != "" {
				name += " with certificate"
			}
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestAdminister: what changes the card as a whole changes it wholly, or not at all.
func TestAdminister(t *testing.T) {
	pin, puk, fresh := hsmtest.PIN("123456"), hsmtest.PIN(hsmtest.FakePUK), hsmtest.PIN("87654321")
	try(t, "87654321 12345678", secrets, flowtest.UseCase{Name: "change the PIN", Answers: []hsmtest.Answer{pin, fresh},
		Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
			_, err := Tokens{w.Env}.ChangePIN(ctx, w.Card.Info().URI(), hsm.UserPIN, p)
			return err
		}})
	try(t, "123456 87654321", secrets, flowtest.UseCase{Name: "change the PUK", Answers: []hsmtest.Answer{puk, fresh},
		Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
			_, err := Tokens{w.Env}.ChangePIN(ctx, w.Card.Info().URI(), hsm.PUK, p)
			return err
		}})
	try(t, "87654321 12345678", secrets, flowtest.UseCase{Name: "unblock the PIN", Answers: []hsmtest.Answer{puk, fresh},
		World: func(t testing.TB) *flowtest.World { w := card(t); w.Card.Block(); return w },
		Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
			d, err := Tokens{w.Env}.UnblockPIN(ctx, w.Card.Info().URI(), p)
			if err == nil && d.Info.PIN.Locked {
				err = errors.New("it still is blocked")
			}
			return err
		}})
	try(t, "123456 12345678", secrets, flowtest.UseCase{Name: "set the management key", Answers: []hsmtest.Answer{pin},
		Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
			_, d, err := Tokens{w.Env}.SetManagementKey(ctx, w.Card.Info().URI(), hsm.ManagementKeyOptions{Protect: true}, p)
			if err == nil && d.Details.ManagementKey.Default {
				err = errors.New("it is the default one")
			}
			return err
		}})
	reset := func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
		d, err := Tokens{w.Env}.Reset(ctx, w.Card.Info().URI(), func(l Loss) (hsm.Prompter, error) {
			if len(l.Slots) != 1 || l.Serial() != w.Card.Info().Serial {
				return nil, errors.New("it is told that something else is lost")
			}
			return p, nil
		})
		if err == nil && d.Info.Serial != w.Card.Info().Serial {
			err = errors.New("these are another token's details")
		}
		return err
	}
	try(t, "", content, flowtest.UseCase{Name: "reset", Answers: []hsmtest.Answer{hsmtest.Yes()}, Do: reset})
	w := card(t)
	for _, no := range []hsmtest.Answer{hsmtest.No(), hsmtest.Cancel()} {
		if err := reset(t.Context(), w, hsmtest.NewScript(t, no)); !errors.Is(err, hsm.ErrCancelled) || content(w) != "9a" {
			t.Errorf("a reset that was not wanted: %v, %s", err, content(w))
		}
	}
	declined := errors.New("declined")
	_, err := Tokens{w.Env}.Reset(t.Context(), w.Card.Info().URI(),
		func(Loss) (hsm.Prompter, error) { return nil, declined })
	if !errors.Is(err, declined) || content(w) != "9a" {
		t.Errorf("a reset whose loss was declined: %v, %s", err, content(w))
	}
}

// TestManagementKeyIsShown: a management key that is in force is returned, even if the card
// is pulled right after it was set.
func TestManagementKeyIsShown(t *testing.T) {
	w := card(t)
	changed := false
	w.Card.Before(func(_ context.Context, op hsmtest.Op) error {
		if changed {
			w.Card.Unplug()
		}
		changed = op == hsmtest.OpChange
		return nil
	})
	key, _, err := Tokens{w.Env}.SetManagementKey(t.Context(), w.Card.Info().URI(), hsm.ManagementKeyOptions{},
		hsmtest.NewScript(t))
	if !errors.Is(err, hsm.ErrRemoved) || !strings.Contains(err.Error(), "it is done, but") || key == nil {
		t.Errorf("%v, key %v", err, key)
	}
}

// initializer is a driver that sets tokens up.
type initializer struct{ hsm.Driver }

func (initializer) Initialize(ctx context.Context, u hsm.URI, _ hsm.InitializeOptions, p hsm.Prompter) (hsm.TokenInfo,
	error) {
	pin, err := p.PIN(ctx, hsm.PINPrompt{Kind: hsm.SOPIN, New: true})
	if err == nil {
		pin.Zero()
	}
	return hsm.TokenInfo{Scheme: u.Scheme, Initialized: err == nil}, err
}

// TestUnable: what a token cannot do is refused before anybody is asked, with a hint at
// another way. Nothing changes.
func TestUnable(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "")
	key := w.Generate(hsm.GenerateOptions{Slot: "9a"}).URI
	u, before := w.Card.Info().URI(), w.State()
	ts, k, nobody := Tokens{w.Env}, Keys{w.Env}, hsmtest.NewScript(t)
	for name, c := range map[string]struct {
		do   func(context.Context) error
		hint string
	}{
		"change the PIN": {func(ctx context.Context) error { _, err := ts.ChangePIN(ctx, u, hsm.UserPIN, nobody); return err }, "the maker's tool"},
		"unblock":        {func(ctx context.Context) error { _, err := ts.UnblockPIN(ctx, u, nobody); return err }, "the maker's tool"},
		"management key": {func(ctx context.Context) error {
			_, _, err := ts.SetManagementKey(ctx, u, hsm.ManagementKeyOptions{}, nobody)
			return err
		}, "only PIV"},
		"reset": {func(ctx context.Context) error { _, err := ts.Reset(ctx, u, nil); return err }, "token init --erase"},
		"init": {func(ctx context.Context) error {
			_, err := ts.Init(ctx, u, hsm.InitializeOptions{}, nobody)
			return err
		}, "token reset"},
		"attest": {func(ctx context.Context) error { _, err := k.Attest(ctx, key, nil); return err }, "key show"},
	} {
		if err := c.do(t.Context()); !errors.Is(err, hsm.ErrUnsupported) || !strings.Contains(hinting.Of(err), c.hint) {
			t.Errorf("%s: %v, hint %q", name, err, hinting.Of(err))
		}
	}
	w.Unchanged(before)
}

// TestInit: a driver that can set tokens up does so, once the agent has let the token go.
func TestInit(t *testing.T) {
	w := card(t)
	w.Env.Drivers[0] = initializer{w.Env.Drivers[0]}
	init := func(answer hsmtest.Answer) error {
		_, err := Tokens{w.Env}.Init(t.Context(), w.Card.Info().URI(), hsm.InitializeOptions{},
			hsmtest.NewScript(t, answer).Lax())
		return err
	}
	if err := init(hsmtest.PIN("12345678")); err != nil {
		t.Error(err)
	}
	if err := init(hsmtest.Cancel()); !errors.Is(err, hsm.ErrCancelled) {
		t.Errorf("cancelled: %v", err)
	}
	w.Stuck()
	if err := init(hsmtest.PIN("12345678")); err == nil || !strings.Contains(hinting.Of(err), "agent stop") {
		t.Errorf("beside an agent that cannot be locked: %v", err)
	}
}

// refusing is a driver whose token lets itself be erased, and then does not go on.
type refusing struct{ hsm.Driver }

func (refusing) Initialize(_ context.Context, u hsm.URI, _ hsm.InitializeOptions, _ hsm.Prompter) (hsm.TokenInfo,
	error) {
	return hsm.TokenInfo{Scheme: u.Scheme, Initialized: true},
		hinting.With(fmt.Errorf("no PIN yet: %w", hsm.ErrUnsupported), "set it")
}

// TestInitRefused: why a token was not set up whole, and what became of it, are the
// driver's to say.
func TestInitRefused(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePKCS11, hsmtest.FakeOptions{}, "")
	w.Env.Drivers[0] = refusing{w.Env.Drivers[0]}
	info, err := Tokens{w.Env}.Init(t.Context(), w.Card.Info().URI(), hsm.InitializeOptions{}, hsmtest.NewScript(t))
	if !info.Initialized || err == nil || !strings.Contains(err.Error(), "no PIN yet") || hinting.Of(err) != "set it" {
		t.Errorf("%+v, %v, hint %q", info, err, hinting.Of(err))
	}
}

// TestAgentThatDoesNotLock: while the agent may still have the PIN, no PIN is changed, and
// nobody is asked for one.
func TestAgentThatDoesNotLock(t *testing.T) {
	w := card(t)
	w.Stuck()
	_, err := Tokens{w.Env}.ChangePIN(t.Context(), w.Card.Info().URI(), hsm.UserPIN, hsmtest.NewScript(t))
	if err == nil || !strings.Contains(hinting.Of(err), "`kubehsm agent stop`") || w.Card.PIN() != "123456" {
		t.Errorf("%v, hint %q, PIN %s", err, hinting.Of(err), w.Card.PIN())
	}
}
