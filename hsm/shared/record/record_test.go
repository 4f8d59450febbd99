package record_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/record"
	"github.com/kubehsm/kubehsm/test/must"
)

type thing struct {
	Name string `json:"name"`
}

// TestDecode has a program that knows version 2 read what others write.
func TestDecode(t *testing.T) {
	two, lenient := record.Format{Version: 2}, record.Format{Version: 2, Lenient: true}
	for name, tc := range map[string]struct {
		format record.Format
		data   string
		newer  bool
		fails  bool
	}{
		"before versions":                  {format: two, data: `{"name":"a"}`},
		"an unknown field, no version":     {format: two, data: `{"name":"a","only":"b"}`, fails: true},
		"its own version":                  {format: two, data: `{"version":2,"name":"a"}`},
		"an unknown field, its version":    {format: two, data: `{"version":2,"name":"a","only":"b"}`, fails: true},
		"newer, not said whether usable":   {format: two, data: `{"version":3,"name":"a"}`, newer: true},
		"newer, with a restriction":        {format: two, data: `{"version":3,"needs":3,"name":"a","only":"b"}`, newer: true},
		"newer, usable":                    {format: two, data: `{"version":3,"needs":2,"name":"a","note":"b"}`},
		"much newer, usable by all":        {format: two, data: `{"version":9,"needs":1,"name":"a","note":"b"}`},
		"lenient, an unknown field":        {format: lenient, data: `{"name":"a","note":"b"}`},
		"lenient, newer":                   {format: lenient, data: `{"version":3,"name":"a"}`, newer: true},
		"not JSON":                         {format: two, data: `{"name":`, fails: true},
		"two objects":                      {format: two, data: `{"name":"a"}{"name":"b"}`, fails: true},
		"a restriction in an old version":  {format: two, data: `{"version":1,"needs":3,"name":"a"}`, newer: true},
		"the version is of the wrong kind": {format: two, data: `{"version":"3","name":"a"}`, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			var v thing
			err := tc.format.Decode([]byte(tc.data), &v)
			if errors.Is(err, record.ErrNewer) != tc.newer || (err != nil) != (tc.newer || tc.fails) {
				t.Fatalf("error %v", err)
			}
			if tc.newer && hint.Of(err) == "" {
				t.Error("no hint")
			}
			if err == nil && v.Name != "a" {
				t.Errorf("read %+v", v)
			}
		})
	}
}

// TestReplaceable: what an older program would lose by writing it anew, it leaves.
func TestReplaceable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	one := record.Format{Version: 1}
	if err := one.Replaceable(path); err != nil {
		t.Errorf("nothing there: %v", err)
	}
	for data, newer := range map[string]bool{`{"name":"a"}`: false, `{"version":2,"needs":1,"name":"a"}`: true,
		`{"na`: false} {
		must.OK(t, os.WriteFile(path, []byte(data), 0o600))
		if err := one.Replaceable(path); errors.Is(err, record.ErrNewer) != newer || (err != nil) != newer {
			t.Errorf("%s: %v", data, err)
		}
	}
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"b.json", "a.json", ".hidden.json", "a.lock", ".a.json.tmp-1"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, n), nil, 0o600))
	}
	if got, err := record.Names(dir); err != nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := record.Names(filepath.Join(dir, "none")); err != nil || got != nil {
		t.Errorf("no folder: %v, %v", got, err)
	}
}
