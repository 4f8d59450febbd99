package enroll

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// TestKeyGone: where the key of an enrollment is no longer on the token, the same command plans a new
// one, says so, and makes it; what was recorded of the rest still counts.
func TestKeyGone(t *testing.T) {
	w := enrolled(t)
	before := load(t, w, "prod-hsm")
	keys := token.Keys{Env: w.Env}
	tok, err := w.Env.Drivers.Open(t.Context(), before.Key) // another program deletes the key
	if err == nil {
		err = errors.Join(tok.Delete(t.Context(), before.Key, hsmtest.Typing(t, w.Card.PIN())), tok.Close())
	}
	must.OK(t, err)
	other := w.Generate(hsm.GenerateOptions{Slot: "9a"})                  // another person's key in the old slot
	r, err := NewEnroller(w.Env).Review(t.Context(), enrolling.Options{}) // from its own context
	must.OK(t, err)
	if r.Refused != nil || len(r.Resumes) > 0 || r.Options.Context == "prod-hsm" || r.Options.User != "jane" ||
		r.Options.Generate.Slot != "82" || !strings.Contains(strings.Join(r.Notes, "\n"), "no longer on the token") {
		t.Fatalf("%+v", r)
	}
	if _, err := NewEnroller(w.Env).Enroll(t.Context(), r.Options, hsmtest.Typing(t, w.Card.PIN()), nil); err != nil {
		t.Fatal(err)
	}
	after, err := w.Env.Enrollments().Load("prod-hsm")
	if err != nil || after.Key.Slot != "82" || after.KeyHash == before.KeyHash || after.Context != before.Context {
		t.Errorf("%+v, %v", after, err)
	}
	if s, err := keys.Slot(t.Context(), other.URI); err != nil || !hsm.SameKey(s.Key.Public, other.Key.Public) {
		t.Errorf("the other key: %+v, %v", s, err)
	}
	r, err = NewEnroller(w.Env).Review(t.Context(), enrolling.Options{Name: "prod-hsm"})
	if err != nil || len(r.Resumes) == 0 || r.Options.Restart {
		t.Errorf("with its key: %+v, %v", r, err)
	}
	r, err = NewEnroller(w.Env).Review(t.Context(), enrolling.Options{Restart: true})
	if err != nil || r.Options.Context != before.Context {
		t.Errorf("anew from its own context: %+v, %v", r.Options, err)
	}
}

// TestSecondEnrollment: a second key goes into the first free slot of the card unless another slot is
// named; one that is named and taken is refused with the free one.
func TestSecondEnrollment(t *testing.T) {
	w := enrolled(t)
	r, err := NewEnroller(
		w.Env,
	).Review(t.Context(), enrolling.Options{Name: "second", Context: "Prod/EU west", User: "jane"})
	if err != nil || r.Refused != nil || r.Options.Generate.Slot != "82" ||
		!strings.Contains(strings.Join(r.Notes, "\n"), "slot 9a holds another key") {
		t.Errorf("%+v, %v", r, err)
	}
	o := enrolling.Options{
		Name:     "second",
		Context:  "Prod/EU west",
		User:     "jane",
		Generate: hsm.GenerateOptions{Slot: "9a"},
	}
	r, err = NewEnroller(w.Env).Review(t.Context(), o)
	if err != nil || r.Refused == nil ||
		!strings.Contains(hint.Of(r.Refused), "--slot 82, or destroy it with --overwrite") {
		t.Errorf("a slot that is taken: %+v, %v", r, err)
	}
}
