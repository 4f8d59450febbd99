package enrollment_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/record"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
)

// written is an enrollment in the form of before records had versions.
const written = `{
  "name": "prod",
  "cluster": {
    "server": "https://10.0.0.1:6443"
  },
  "key": "pkcs11:token=trial",
  "keyHash": "0000000000000000000000000000000000000000000000000000000000000000",
  "user": "jane",
  "created": "2026-11-20T08:00:00Z"
}
`

// TestVersions: an enrollment of a later version serves where its record says that it can,
// is refused where it does not, and is never written anew here.
func TestVersions(t *testing.T) {
	for name, tc := range map[string]struct {
		marks string
		newer bool // refused
		keeps bool // is not written anew
	}{
		"of before":     {},
		"with a limit":  {marks: `"version": 4, "needs": 4, "onlyFor": "reading",`, newer: true, keeps: true},
		"not said":      {marks: `"version": 4, "onlyFor": "reading",`, newer: true, keeps: true},
		"with a remark": {marks: `"version": 4, "needs": 1, "remark": "ours",`, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := enrollment.NewStore(home.Dirs{State: dir})
			path := filepath.Join(dir, "enrollments", "prod.json")
			must.OK(t, home.MakeDir(filepath.Dir(path)))
			before := strings.Replace(written, "{", "{"+tc.marks, 1)
			must.OK(t, os.WriteFile(path, []byte(before), 0o600))
			e, err := s.Load("prod")
			if errors.Is(err, record.ErrNewer) != tc.newer || (err != nil) != tc.newer {
				t.Fatalf("load: %v", err)
			}
			if tc.newer && !strings.Contains(hint.Of(err), "update kubehsm") {
				t.Errorf("hint %q", hint.Of(err))
			}
			if tc.newer {
				return
			}
			if err := s.Save(e); errors.Is(err, record.ErrNewer) != tc.keeps {
				t.Errorf("save: %v", err)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != before {
				t.Errorf("the file is %s (%v), was %s", after, err, before)
			}
		})
	}
}
