package contexts

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/session"
)

// TestMerge: two enrollments of one user become one with a spare, under the strictest policy of both. Taking back
// the change of the kubeconfig parts them, and either key can be removed alone.
func TestMerge(t *testing.T) {
	t.Parallel() // it waits for a lock
	w := world(t)
	k := New(w.Env)
	first, err := w.Env.Enrollments().Load("prod-hsm")
	if err != nil {
		t.Fatal(err)
	}
	all := []enrollment.Enrollment{first}
	for _, of := range [][]string{{"prod-b", "jane", "dev"}, {"prod-other", "joe"}} {
		w.Card = w.Env.Drivers[0].(*hsmtest.Fake).Add(hsmtest.FakeOptions{Label: of[0]})
		all = append(all, w.Enroll(of[0], of[1], of[2:]...))
		change, err := k.Set(t.Context(), of[0], false, false)
		if err := apply(t.Context(), change, err); err != nil {
			t.Fatal(err)
		}
	}
	current, err := k.Use(t.Context(), "prod-hsm")
	if err := apply(t.Context(), current, err); err != nil {
		t.Fatal(err)
	}
	all[1].Policy = consent.Always
	if err := w.Env.Enrollments().Save(w.Signed(all[1])); err != nil {
		t.Fatal(err)
	}
	for what, names := range map[string][2]string{"itself": {"prod-b", "prod-b"}, "the current one": {"prod-hsm", "prod-b"},
		"another user's": {"prod-other", "prod-hsm"}, "in nothing": {"prod-b", "none"}, "nothing": {"none", "prod-hsm"}} {
		if _, err := Merge(t.Context(), w.Env, names[0], names[1]); err == nil {
			t.Errorf("%s is merged", what)
		}
	}
	text := func() string {
		b, err := os.ReadFile(w.Env.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := text()
	change, err := Merge(t.Context(), w.Env, "prod-b", "prod-hsm")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(change.Diff(), "-  name: prod-b") || change.Empty() {
		t.Errorf("the difference is %s", change.Diff())
	}
	if err := change.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text(), "prod-b") {
		t.Errorf("the entry is still in\n%s", text())
	}
	if c, err := (session.Agent{Env: w.Env}).Consent("prod-hsm"); err != nil || c.Policy().Asks() || len(c.Also) != 1 ||
		c.Problem != nil {
		t.Errorf("the policy of the first key is %+v, %v", c, err)
	}
	views, err := k.List(t.Context())
	if i := slices.IndexFunc(views, func(v View) bool { return v.Enrollment == "prod-hsm" }); err != nil || i < 0 ||
		!slices.Equal(views[i].Spares, []string{"prod-b"}) {
		t.Errorf("the contexts are %+v, %v", views, err)
	}
	if again, err := Merge(t.Context(), w.Env, "prod-b", "prod-hsm"); err != nil || !again.Empty() {
		t.Errorf("merged twice: %v", err)
	}
	if _, err := k.Set(t.Context(), "prod-b", false, false); err == nil {
		t.Error("a spare gets an entry of its own")
	}
	if _, err := k.Unenrollment(t.Context(), "prod-hsm", On(all[2].Key)); !errors.Is(err, hsm.ErrNoKey) {
		t.Errorf("the key on a token of somebody else: %v", err)
	}
	for _, e := range all[:2] {
		u, err := k.Unenrollment(t.Context(), "prod-hsm", On(e.Key))
		if err != nil || u.Enrollment.Name != e.Name || len(u.Stay) != 1 || !u.Kubeconfig.Empty() ||
			u.Lost.Fingerprint != e.KeyHash {
			t.Errorf("the key of %s alone: %+v, %v", e.Name, u, err)
		}
	}
	merged := text()
	undo, err := k.Undo(t.Context(), "")
	if err != nil || !strings.Contains(strings.Join(undo.Notes(), "\n"), "prod-b is no longer a spare of prod-hsm") {
		t.Fatalf("the undo: %v", err)
	}
	release, err := w.Env.Lock(t.Context(), "prod-b")
	if err != nil {
		t.Fatal(err)
	}
	if err := undo.Apply(t.Context()); !errors.Is(err, enrollment.ErrBusy) || text() != merged {
		t.Errorf("while another works on it: %v", err)
	}
	release()
	if err := apply(t.Context(), undo, err); err != nil {
		t.Fatal(err)
	}
	if back, err := w.Env.Enrollments().Load("prod-b"); err != nil || back.SpareOf != "" || text() != before {
		t.Errorf("after the undo it is a spare of %q, %v, and the kubeconfig\n%s", back.SpareOf, err, text())
	}
}

// TestMergeOfLate: what has changed since the merge was planned is looked at again, and kept.
func TestMergeOfLate(t *testing.T) {
	w := world(t)
	w.Card = w.Env.Drivers[0].(*hsmtest.Fake).Add(hsmtest.FakeOptions{Label: "second"})
	second := w.Enroll("prod-b", "jane", "dev")
	k, store := New(w.Env), w.Env.Enrollments()
	set, err := k.Set(t.Context(), "prod-b", false, false)
	if err := apply(t.Context(), set, err); err != nil {
		t.Fatal(err)
	}
	current, err := k.Use(t.Context(), "prod-hsm")
	if err := apply(t.Context(), current, err); err != nil {
		t.Fatal(err)
	}
	change, err := Merge(t.Context(), w.Env, "prod-b", "prod-hsm")
	if err != nil {
		t.Fatal(err)
	}
	other := second
	other.Groups = []string{"ops"}
	if err := store.Save(other); err != nil {
		t.Fatal(err)
	}
	before := w.State()["kubeconfig"]
	if err := change.Apply(t.Context()); !errors.Is(err, ErrNoSpare) || w.State()["kubeconfig"] != before {
		t.Errorf("with other groups by now: %v", err)
	}
	second.Policy = consent.Always
	if err := store.Save(second); err != nil {
		t.Fatal(err)
	}
	if err := change.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, err := store.Load("prod-b"); err != nil || now.SpareOf != "prod-hsm" || now.Policy != consent.Always {
		t.Errorf("merged it is %+v, %v", now, err)
	}
}
