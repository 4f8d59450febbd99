package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/present"
)

// TestWriteBundle: a report is a new file that only its owner can read, whole or not there.
func TestWriteBundle(t *testing.T) {
	m := newMachine(t)
	path := filepath.Join(t.TempDir(), "report.zip")
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	if _, err := WriteBundle(cancelled, path, *m.Options); !errors.Is(err, context.Canceled) {
		t.Errorf("ctrl-c: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ctrl-c leaves a report: %v", err)
	}
	if checks, err := WriteBundle(t.Context(), path, *m.Options); err != nil || len(checks) == 0 {
		t.Fatalf("%d checks, %v", len(checks), err)
	}
	whole, err := os.Stat(path)
	if err != nil || whole.Mode().Perm() != 0o600 || whole.Size() == 0 {
		t.Errorf("%v, %v", whole, err)
	}
	if _, err := WriteBundle(t.Context(), path, *m.Options); !errors.Is(err, fs.ErrExist) ||
		!strings.Contains(hinting.Of(err), "does not exist yet") {
		t.Errorf("over another: %v, hint %q", err, hinting.Of(err))
	}
	if now, err := os.Stat(path); err != nil || now.Size() != whole.Size() {
		t.Errorf("over another: %v, %v", now, err)
	}
}

// TestAdvice: each problem comes with why it matters and what mends it.
func TestAdvice(t *testing.T) {
	for state, level := range map[State]present.Level{OK: present.Good, Unknown: present.Warn, Warning: present.Warn,
		Failed: present.Bad, State("odd"): present.Quiet} {
		c := Check{State: state, Why: "it matters", Fix: "do this"}
		want := []string{"it matters", "To mend it: do this"}
		if state == OK {
			want = nil
		}
		if got := c.Advice(); state.Level() != level || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %q", state, state.Level(), got)
		}
	}
}
