package token

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// newCard returns what use cases work with, and one card that can do everything.
func newCard(t *testing.T) (*env.Env, *hsmtest.FakeToken) {
	t.Helper()
	cards := hsmtest.NewFake(hsm.SchemePIV)
	card := cards.Add(hsmtest.FakeOptions{})
	e, _ := flowtest.Env(t)
	e.Drivers = hsm.Drivers{cards}
	return e, card
}

// enrolled makes a key in a slot, an enrollment with it, and the record by which
// that goes on.
func enrolled(t *testing.T, e *env.Env, p hsm.Prompter, name, slot string) hsm.Slot {
	t.Helper()
	u, err := Tokens{e}.Only(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made, err := Keys{e}.Generate(t.Context(), u, hsm.GenerateOptions{Slot: slot}, p)
	if err != nil {
		t.Fatal(err)
	}
	enroll(t, e, made, name)
	return made
}

// enroll makes an enrollment with the key in a slot, and the record by which it goes on.
func enroll(t testing.TB, e *env.Env, made hsm.Slot, name string) {
	t.Helper()
	hash, err := hsm.Fingerprint(made.Key.Public)
	if err != nil {
		t.Fatal(err)
	}
	at := cluster.Cluster{Server: "https://10.0.0.1:6443"}
	j := &enrolling.Progress{Cluster: at, Request: enrolling.Request{Key: made.URI, KeyHash: hash}}
	j.Options.Name, j.Options.User, j.Options.Token, j.Options.Generate.Slot = name, "jane", made.URI.TokenOnly(), made.URI.Slot
	if err := errors.Join(e.Dirs.Prepare(), home.MakeDir(e.ProgressDir()), enrolling.NewStore(e).Save(j),
		e.Enrollments().Save(enrollment.Enrollment{Name: name, Cluster: at, Key: made.URI, KeyHash: hash, User: "jane",
			Created: time.Now().UTC()}),
	); err != nil {
		t.Fatal(err)
	}
}

// A moved key is followed by its enrollments, and by the records by which they
// are renewed; other keys' are left alone.
func TestFollowMovedKey(t *testing.T) {
	e, _ := newCard(t)
	p := hsmtest.NewScript(t, hsmtest.PIN("123456"))
	moved := enrolled(t, e, p, "moves", "9a")
	enrolled(t, e, p, "stays", "9c")
	moved.URI.Slot = "82"
	followed, err := Keys{e}.follow(t.Context(), moved)
	if err != nil || !slices.Equal(followed, []string{"moves"}) {
		t.Errorf("followed %q, %v", followed, err)
	}
	for name, slot := range map[string]string{"moves": "82", "stays": "9c"} {
		en, err := e.Enrollments().Load(name)
		if err != nil {
			t.Fatal(err)
		}
		j, err := enrolling.NewStore(e).Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if en.Key.Slot != slot || j.Request.Key.Slot != slot || j.Options.Generate.Slot != slot {
			t.Errorf("%s: enrollment %s, record %s and %s; want %s", name, en.Key, j.Request.Key, j.Options.Generate.Slot, slot)
		}
	}
}
