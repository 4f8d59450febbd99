package enroll

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// factory is scene with a card as it comes from the shop.
func factory(t testing.TB) *flowtest.World {
	t.Helper()
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{New: true, Can: hsmtest.Administered()}, "jane", "dev")
	w.Server.Signs(true)
	flowtest.Agent(t, w.Env)
	return w
}

// TestGuided: whoever goes through an enrollment of a new card types a PIN once, and is shown
// a PUK at the end. Wherever the enrollment fails, the same command finishes it, and no secret
// is in force that nobody knows.
func TestGuided(t *testing.T) {
	const own = "87654321"
	shown := map[*hsmtest.FakeToken]string{} // PUKs
	o := enrolling.Options{Name: "prod-hsm", Timeout: 2 * time.Second, AcceptForecast: true, Guided: true,
		Generate: hsm.GenerateOptions{Touch: hsm.TouchNever}} // the test touches nothing
	guided := func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
		r, err := NewEnroller(w.Env).Enroll(ctx, o, p, nil)
		if r.PUK != nil {
			shown[w.Card] = string(r.PUK.Bytes())
		}
		if puk := w.Card.PUK(); puk != hsmtest.FakePUK && shown[w.Card] != puk {
			t.Errorf("the PUK %s is in force, and nobody knows: %v", puk, err)
		}
		if err == nil && (r.User != "jane" || w.Card.PUK() == hsmtest.FakePUK || w.Card.PIN() != own) {
			err = errors.New("the card has default secrets still: " + strings.Join(r.Notes, "; "))
		}
		return err
	}
	flowtest.UseCase{Name: "enroll", World: factory, Answers: []hsmtest.Answer{hsmtest.PIN(own)}, Resumes: true,
		Leaves: []string{""}, // the progress record, with which the enrollment goes on
		Passes: []string{"=forbidden: create selfsubjectreviews (2)", "=500: create selfsubjectreviews (2)"},
		Until:  "create certificatesigningrequests", // the rest is as in TestEnroll; the PUK's change is tried below
		Do:     guided}.Try(t)
	for _, op := range []hsmtest.Op{hsmtest.OpOpen, hsmtest.OpAdminister, hsmtest.OpChange} { // steps of the PUK's change
		w := factory(t)
		r, err := NewEnroller(w.Env).Enroll(t.Context(), o, hsmtest.NewScript(t, hsmtest.PIN(own)), func(e enrolling.Event) {
			if e.Step == enrolling.StepKubeconfig && e.State == enrolling.StepDone {
				w.Card.Fail(op, hsm.ErrRemoved)
			}
		})
		maybe := op == hsmtest.OpChange // the card may have taken it
		warned := strings.Join(r.Warnings, "\n")
		if err != nil || r.User != "jane" || !strings.Contains(warned, "everybody knows") ||
			!strings.Contains(warned, "token puk change --generate --token piv:serial=") || (r.PUK != nil) != maybe {
			t.Errorf("%s: %v, warnings %q, a PUK to show: %t", op, err, warned, r.PUK != nil)
		}
	}
	w := factory(t)
	must.OK(t, guided(t.Context(), w, hsmtest.NewScript(t, hsmtest.PIN(own))))
	if d, err := (detailsOf(t, w)); err != nil || d.ManagementKey.Default || d.PUK.Default {
		t.Errorf("%+v, %v", d, err)
	}

	w = factory(t)
	review, err := NewEnroller(w.Env).Review(t.Context(), o)
	if err != nil || review.Refused != nil || review.Options.User != "jane" ||
		!slices.Equal(review.Replaces, []hsm.PINKind{hsm.UserPIN, hsm.PUK, hsm.ManagementKey}) {
		t.Errorf("review: %+v, %v", review, err)
	}
	touched := o
	touched.Generate.Touch = hsm.TouchDefault
	if review, err = NewEnroller(w.Env).Review(t.Context(), touched); err != nil ||
		review.Options.Generate.Touch != hsm.TouchCached {
		t.Errorf("the touch policy of a new key: %s, %v", review.Options.Generate.Touch, err)
	}
	plain := o
	plain.Guided = false
	review, err = NewEnroller(w.Env).Review(t.Context(), plain)
	if err != nil || !errors.Is(review.Refused, ErrDefaultSecrets) {
		t.Errorf("where nobody goes through it: %v, %v", review.Refused, err)
	}
	_, err = NewEnroller(w.Env).Enroll(t.Context(), plain, hsmtest.NewScript(t), nil)
	if !errors.Is(err, ErrDefaultSecrets) {
		t.Errorf("where nobody goes through it: %v", err)
	}
}

// TestGuidedLater: who goes on with an enrollment whose key is made keeps the key's policy.
func TestGuidedLater(t *testing.T) {
	w := scene(t)
	w.Card.Describe(func(info *hsm.TokenInfo) { info.Can.Policies = true })
	o := enrolling.Options{Name: "prod-hsm", User: "jane"}
	ctx, stop := context.WithCancel(t.Context())
	_, err := NewEnroller(w.Env).Enroll(ctx, o, hsmtest.Typing(t, w.Card.PIN()), func(e enrolling.Event) {
		if e.Step == enrolling.StepKey && e.State == enrolling.StepDone {
			stop()
		}
	})
	if err == nil {
		t.Fatal("the enrollment was not stopped")
	}
	o = enrolling.Options{Name: "prod-hsm", Guided: true}
	review, err := NewEnroller(w.Env).Review(t.Context(), o)
	if err != nil || review.Options.Generate.Touch != hsm.TouchDefault {
		t.Fatalf("%s, %v", review.Options.Generate.Touch, err)
	}
	review.Options.Guided = true
	if _, err := NewEnroller(w.Env).Enroll(t.Context(), review.Options, hsmtest.Typing(t, w.Card.PIN()), nil); err != nil {
		t.Error(err)
	}
}

// TestKnownDefaults: a default PIN or PUK is used where the card says that it is in force, and
// once. All other questions are put to the person.
func TestKnownDefaults(t *testing.T) {
	of := func(kind hsm.PINKind, isDefault bool, again string) hsm.PINPrompt {
		return hsm.PINPrompt{Kind: kind, Again: again,
			Token: hsm.TokenInfo{Scheme: hsm.SchemePIV, PIN: hsm.PINState{Default: isDefault}}}
	}
	typed := errors.New("a person is asked")
	p := knownDefaults(func(context.Context, ask.Question) (ask.Answer, error) { return ask.Answer{}, typed })
	chosen, library := of(hsm.PIVPIN, true, ""), of(hsm.UserPIN, true, "")
	chosen.New, library.Token.Scheme = true, hsm.SchemePKCS11
	for name, c := range map[string]struct {
		prompt hsm.PINPrompt
		want   string // "" is a person's answer
	}{
		"the default PIN":      {of(hsm.PIVPIN, true, ""), "123456"},
		"the default PUK":      {of(hsm.PUK, true, ""), "12345678"},
		"another PIN":          {of(hsm.PIVPIN, false, ""), ""},
		"another PUK":          {of(hsm.PUK, false, ""), ""},
		"a new PIN":            {chosen, ""},
		"a token without them": {library, ""},
	} {
		pin, err := p.PIN(t.Context(), c.prompt)
		if c.want == "" && !errors.Is(err, typed) || c.want != "" && (err != nil || string(pin.Bytes()) != c.want) {
			t.Errorf("%s: %q, %v", name, pin.Bytes(), err)
		}
	}
	low := of(hsm.PIVPIN, true, "")
	low.Token.PIN.Low = true
	if _, err := knownDefaults(ask.Nobody(typed)).PIN(t.Context(), low); !errors.Is(err, typed) {
		t.Errorf("where a try was spent: %v", err)
	}
	if _, err := p.PIN(t.Context(), of(hsm.PIVPIN, true, "wrong PIN")); err == nil || errors.Is(err, typed) ||
		!strings.Contains(err.Error(), "refuses that") {
		t.Errorf("a default PIN that was refused: %v", err)
	}
}

func detailsOf(t testing.TB, w *flowtest.World) (hsm.Details, error) {
	t.Helper()
	token, err := w.Env.Drivers.Open(t.Context(), w.Card.Info().URI())
	if err != nil {
		return hsm.Details{}, err
	}
	defer token.Close()
	return token.Details(t.Context())
}
