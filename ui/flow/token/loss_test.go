package token

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestLossOfHalfAKey: a private key whose public key nothing tells is that of the enrollment
// which names its place, and is not said to be nobody's.
func TestLossOfHalfAKey(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{Can: hsmtest.Administered()}, "")
	info, made := w.Card.Info(), w.Generate(hsm.GenerateOptions{Slot: "9a"})
	hash, err := hsm.Fingerprint(made.Key.Public)
	must.OK(t, err)
	en := enrollment.Enrollment{Name: "prod", Key: made.URI, KeyHash: hash, User: "jane", Created: time.Now()}
	en.Cluster.Server = "https://prod.example.com"
	must.OK(t, errors.Join(w.Env.Dirs.Prepare(), w.Env.Enrollments().Save(en)))
	for _, c := range []struct {
		slot string
		half hsm.Half
		want []string
	}{
		{en.Key.Slot, hsm.HalfPrivate, []string{"prod"}},
		{"82", hsm.HalfPrivate, nil},
		{en.Key.Slot, hsm.HalfPublic, nil},
	} {
		s := hsm.Slot{URI: info.URI(), ID: c.slot, Half: c.half}
		s.URI.Slot = c.slot
		got, err := Tokens{w.Env}.enrolledWith(info, []hsm.Slot{s})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s in %s: %v, %v", c.half, c.slot, got, err)
		}
	}
}

// TestShortSerialIsEnough: of a long serial its end is typed, as long as no other token that
// is there shares it; the question of the driver itself takes it, too.
func TestShortSerialIsEnough(t *testing.T) {
	const long, end = "5f4dcc3b5aa765d61d8327deb882cf99", "b882cf99"
	env, fake := flowtest.Env(t)
	card := fake.Add(hsmtest.FakeOptions{Label: "card", Serial: long, Can: hsmtest.Administered()})
	ts := Tokens{env}
	loss := func() Loss {
		t.Helper()
		l, err := ts.Loss(t.Context(), card.Info().URI())
		if err != nil || l.Serial() != long {
			t.Fatalf("%+v, %v", l, err)
		}
		return l
	}
	l := loss()
	script := hsmtest.NewScript(t, hsmtest.Yes())
	if _, err := l.shortening(script).Confirm(t.Context(), hsm.ConfirmPrompt{Type: long}); err != nil {
		t.Fatal(err)
	}
	if asked := script.Prompts()[0].Confirm; l.Short != end || asked.Short != end || asked.Type != long {
		t.Errorf("short %q, asked %+v", l.Short, asked)
	}
	fake.Add(hsmtest.FakeOptions{Label: "other", Serial: "00" + end})
	if l = loss(); l.Short != "e"+end {
		t.Errorf("beside another one with that end: %q", l.Short)
	}
	fake.Add(hsmtest.FakeOptions{Label: "twin", Serial: long})
	if l = loss(); l.Short != "" {
		t.Errorf("beside another one with that serial: %q", l.Short)
	}
}
