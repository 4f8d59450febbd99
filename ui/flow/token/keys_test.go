package token

import (
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// at is a slot of the card.
func at(w *flowtest.World, slot string) hsm.URI {
	u := w.Card.Info().URI()
	u.Slot = slot
	return u
}

// certified is [card] with a certificate beside the key in 9a, and an enrollment
// "prod" with the key in 9c.
func certified(t testing.TB) *flowtest.World {
	t.Helper()
	w := card(t)
	enroll(t, w.Env, w.Generate(hsm.GenerateOptions{Slot: "9c"}), "prod")
	en, err := w.Env.Enrollments().Load("prod")
	if err == nil {
		err = w.Env.Enrollments().Save(w.Signed(en))
	}
	must.OK(t, err)
	certify(t, w)
	return w
}

func lock(t testing.TB, w *flowtest.World) {
	t.Helper()
	must.OK(t, (Tokens{w.Env}).With(t.Context(), w.Card.Info().URI(), hsm.Token.Lock))
}

// certify stores a certificate beside the key in 9a, and returns it.
func certify(t testing.TB, w *flowtest.World) (cert *x509.Certificate) {
	t.Helper()
	err := Tokens{w.Env}.With(t.Context(), w.Card.Info().URI(), func(token hsm.Token) error {
		typing := hsmtest.Typing(t, w.Card.PIN())
		signer, err := token.Signer(t.Context(), at(w, "9a"), nil, typing)
		if err != nil {
			return err
		}
		if cert, err = hsmtest.Certify(signer, "jane"); err != nil {
			return err
		}
		return errors.Join(token.StoreCertificate(t.Context(), at(w, "9a"), cert, typing), token.Lock())
	})
	must.OK(t, err)
	return cert
}

// loss returns what would be lost with a slot of w.
func loss(t testing.TB, w *flowtest.World, slot string) Loss {
	t.Helper()
	l, err := Tokens{w.Env}.Loss(t.Context(), at(w, slot))
	must.OK(t, err)
	return l
}

// TestKeys: keys are made and destroyed wholly, or not at all.
func TestKeys(t *testing.T) {
	pin := []hsmtest.Answer{hsmtest.PIN("123456")}
	try(t, "9a, 9c", content, flowtest.UseCase{Name: "generate", Answers: pin,
		Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
			made, err := Keys{w.Env}.Generate(ctx, w.Card.Info().URI(), hsm.GenerateOptions{Slot: "9c"}, p)
			if err == nil && made.URI.Slot != "9c" {
				err = errors.New("it is elsewhere")
			}
			return err
		}})
	var seen Loss
	shown := func(slot string) func(testing.TB) *flowtest.World {
		return func(t testing.TB) *flowtest.World {
			w := certified(t)
			seen = loss(t, w, slot)
			return w
		}
	}
	try(t, "9a with certificate", content, flowtest.UseCase{Name: "delete", Answers: pin, World: shown("9c"),
		Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
			return Keys{w.Env}.Delete(ctx, at(w, "9c"), seen, p)
		}})
}

// TestReadings: use cases that only read ask nobody and change nothing.
func TestReadings(t *testing.T) {
	for _, c := range []flowtest.UseCase{
		{Name: "details", Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			d, err := Tokens{w.Env}.Details(ctx, w.Card.Info().URI())
			if err == nil && (d.Details == nil || len(d.Slots) != 4) {
				err = errors.New("something is missing")
			}
			return err
		}},
		{Name: "loss of a card", Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			l, err := Tokens{w.Env}.Loss(ctx, w.Card.Info().URI())
			if err == nil && (len(l.Slots) != 2 || len(l.Enrollments) != 1) {
				err = errors.New("something is missing")
			}
			return err
		}},
		{Name: "loss of a key", Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			l, err := Tokens{w.Env}.Loss(ctx, at(w, "9a"))
			if err == nil && (len(l.Slots) != 1 || len(l.Enrollments) != 0) {
				err = errors.New("something else is lost")
			}
			return err
		}},
		{Name: "certificate", Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			cert, err := Keys{w.Env}.Certificate(ctx, at(w, "9a"))
			if err == nil && cert.Subject.CommonName != "jane" {
				err = errors.New("it is another one")
			}
			return err
		}},
		{Name: "slot", Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			_, err := Keys{w.Env}.Slot(ctx, at(w, "9a"))
			return err
		}},
		{Name: "the only token", Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			u, err := Tokens{w.Env}.Only(ctx)
			if err == nil && u.Serial != w.Card.Info().Serial {
				err = errors.New("it is another one")
			}
			return err
		}},
		{Name: "list", Passes: []string{"removed"}, Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			_, _, err := Tokens{w.Env}.List(ctx)
			return err
		}},
		{Name: "list what there is", Passes: []string{"removed"}, Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			_, _, err := Tokens{w.Env}.ListNow(ctx)
			return err
		}},
	} {
		c.World = certified
		c.Try(t)
	}
}

// TestListed: tokens are listed with their slots, and problems are listed too.
func TestListed(t *testing.T) {
	w := certified(t)
	w.Card.Fail(hsmtest.OpSlots, hsm.ErrBusy)
	for name, list := range map[string]func(context.Context) ([]hsm.View, []hsm.Problem, error){
		"all": Tokens{w.Env}.List, "now": Tokens{w.Env}.ListNow,
	} {
		views, problems, err := list(t.Context())
		if err != nil || len(views) != 1 || len(views[0].Slots) != 0 || len(problems) != 0 ||
			!errors.Is(views[0].Err, hsm.ErrBusy) {
			t.Errorf("%s, busy: %+v, %+v, %v", name, views, problems, err)
		}
	}
	w.Card.Before(nil)
	if views, problems, err := (Tokens{w.Env}).List(t.Context()); err != nil || len(views) != 1 ||
		len(views[0].Slots) != 2 || len(problems) != 0 {
		t.Errorf("%+v, %+v, %v", views, problems, err)
	}
}

// TestOnly: the only token need not be named. With several, the error says how to name one.
func TestOnly(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*flowtest.World, *hsmtest.Fake)
		want   error
		hint   string
	}{
		"none": {func(w *flowtest.World, _ *hsmtest.Fake) { w.Card.Unplug() }, hsm.ErrNoToken, "insert one"},
		"two":  {func(_ *flowtest.World, f *hsmtest.Fake) { f.Add(hsmtest.FakeOptions{}) }, hsm.ErrSeveralTokens, "--token"},
		"one held": {func(w *flowtest.World, f *hsmtest.Fake) {
			w.Card.Unplug()
			f.SetProblems(hsm.Problem{Err: hsm.ErrBusy})
		}, hsm.ErrBusy, ""},
	} {
		w := card(t)
		c.before(w, w.Env.Drivers[0].(*hsmtest.Fake))
		if _, err := (Tokens{w.Env}).Only(t.Context()); !errors.Is(err, c.want) ||
			!strings.Contains(hinting.Of(err), c.hint) {
			t.Errorf("%s: %v, hint %q", name, err, hinting.Of(err))
		}
	}
}

// TestKeysThatAreNotThere: the error says that a key is missing or was replaced. Nobody is
// asked, and nothing is changed.
func TestKeysThatAreNotThere(t *testing.T) {
	w := certified(t)
	k, nobody, ctx := Keys{w.Env}, hsmtest.NewScript(t), t.Context()
	replaced := loss(t, w, "9a")
	replaced.Slots[0] = loss(t, w, "9c").Slots[0]
	before := w.State()
	for name, c := range map[string]struct {
		do   func() error
		want error
		hint string
	}{
		"a slot":        {func() error { _, err := k.Slot(ctx, at(w, "9e")); return err }, hsm.ErrNoKey, ""},
		"a certificate": {func() error { _, err := k.Certificate(ctx, at(w, "9c")); return err }, hsm.ErrNoCertificate, "csr create"},
		"another key":   {func() error { return k.Delete(ctx, at(w, "9a"), replaced, nobody) }, hsm.ErrKeyMismatch, ""},
	} {
		if err := c.do(); err == nil || c.want != nil && !errors.Is(err, c.want) ||
			!strings.Contains(hinting.Of(err), c.hint) {
			t.Errorf("%s: %v, hint %q", name, err, hinting.Of(err))
		}
	}
	w.Unchanged(before)
}
