package flow

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// A moved key is followed by its enrolments, and by the records by which they
// are renewed; other keys' are left alone.
func TestFollowMovedKey(t *testing.T) {
	ctx := context.Background()
	e, _ := testEnv(t)
	cards := hsmtest.NewFake(hsm.SchemePIV)
	cards.Add(hsmtest.FakeOptions{})
	e.Drivers = hsm.Drivers{cards}
	keys := map[string]hsm.Slot{}
	for name, slot := range map[string]string{"moves": "9a", "stays": "9c"} {
		r := begin(t, e, enrolling.Options{Name: name, User: "jane", Generate: hsm.GenerateOptions{Slot: slot}}, &typist{})
		if _, err := r.makeKey(ctx); err != nil {
			t.Fatal(err)
		}
		if err := enrolling.NewStore(&e.Env).Save(r.j); err != nil {
			t.Fatal(err)
		}
		if err := e.Enrollments().Save(enrollment.Enrollment{Name: name, Cluster: enrollment.Cluster{Server: "https://10.0.0.1:6443"},
			Key: r.j.Key, KeyHash: r.j.KeyHash, User: "jane", Created: time.Now().UTC()}); err != nil {
			t.Fatal(err)
		}
		s, err := r.token.Slot(ctx, r.j.Key)
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = s
	}
	moved := keys["moves"]
	moved.URI.Slot = "82"
	followed, err := e.follow(ctx, moved)
	if err != nil || !slices.Equal(followed, []string{"moves"}) {
		t.Errorf("followed %q, %v", followed, err)
	}
	for name, slot := range map[string]string{"moves": "82", "stays": "9c"} {
		en, err := e.Enrollments().Load(name)
		if err != nil {
			t.Fatal(err)
		}
		j, err := enrolling.NewStore(&e.Env).Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if en.Key.Slot != slot || j.Key.Slot != slot || j.Options.Generate.Slot != slot {
			t.Errorf("%s: enrolment %s, record %s and %s; want %s", name, en.Key, j.Key, j.Options.Generate.Slot, slot)
		}
	}
}
