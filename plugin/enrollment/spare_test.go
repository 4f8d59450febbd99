package enrollment_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestSpares: a family is an enrollment with its spares.
func TestSpares(t *testing.T) {
	dir := t.TempDir()
	s := enrollment.NewStore(home.Dirs{State: dir})
	var first enrollment.Enrollment
	must.OK(t, json.Unmarshal([]byte(written), &first))
	save := func(name, of string) enrollment.Enrollment {
		e := first
		e.Name, e.SpareOf = name, of
		if of != "" {
			e.SpareOfKey = first.KeyHash
		}
		must.OK(t, s.Save(e))
		return e
	}
	save("prod", "")
	second, third := save("prod-spare", "prod"), save("prod-a", "prod")
	alone, other := save("lost", "gone"), save("other", "")
	for _, tc := range []struct {
		of   enrollment.Enrollment
		want []string
	}{
		{first, []string{"prod", "prod-a", "prod-spare"}}, {second, []string{"prod", "prod-a", "prod-spare"}},
		{third, []string{"prod", "prod-a", "prod-spare"}}, {alone, []string{"lost"}}, {other, []string{"other"}},
	} {
		family, err := s.Family(tc.of)
		var names []string
		for _, e := range family {
			names = append(names, e.Name)
		}
		if err != nil || !slices.Equal(names, tc.want) {
			t.Errorf("the family of %s is %v (%v), not %v", tc.of.Name, names, err, tc.want)
		}
	}

	if back, err := s.Load("prod-spare"); err != nil || back.SpareOf != "prod" {
		t.Errorf("it reads back as %+v, %v", back, err)
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "enrollments", "broken.json"), []byte("{"), 0o600))
	if all, err := s.Spares("prod"); err != nil || len(all) != 2 {
		t.Errorf("beside a broken record that is no spare's: %d, %v", len(all), err)
	}
	second.SpareOf = second.Name
	if err := s.Save(second); !errors.Is(err, enrollment.ErrInvalid) {
		t.Errorf("a spare of itself: %v", err)
	}
}

// TestLastUsed: which key was used last is forgotten with the enrollment, and damage is no error.
func TestLastUsed(t *testing.T) {
	dir := t.TempDir()
	s := enrollment.NewStore(home.Dirs{State: dir})
	note := func(last string) {
		t.Helper()
		must.OK(t, s.NoteUsed("prod", last))
		if got := s.LastUsed("prod"); got != last {
			t.Errorf("last used is %q, not %q", got, last)
		}
	}
	note("prod")
	if _, err := os.Stat(filepath.Join(dir, "used")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file is written where there is no choice: %v", err)
	}
	note("prod-spare")
	note("prod")
	must.OK(t, os.WriteFile(filepath.Join(dir, "used", "prod"), []byte("../x"), 0o600))
	if got := s.LastUsed("prod"); got != "prod" {
		t.Errorf("damaged: %q", got)
	}
}
