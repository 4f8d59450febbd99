package kubeconfig

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

// TestPlanUse: one line changes, the step can be taken back, and what is current
// already is left alone.
func TestPlanUse(t *testing.T) {
	r, path := one(t, shared)
	j := Backups(folder(t))
	p, err := r.PlanUse(context.Background(), "b")
	must.OK(t, err)
	mustApply(t, p, j)
	if got, want := text(t, path), strings.Replace(shared, "current-context: a", "current-context: b", 1); got != want {
		t.Errorf("got %s", got)
	}
	if p, err = r.PlanUse(context.Background(), "b"); err != nil || !p.Empty() {
		t.Errorf("%v, %v", p, err)
	}
	mustUndo(t, r, j)
	if text(t, path) != shared {
		t.Errorf("undo left %s", text(t, path))
	}
	if _, err := r.PlanUse(context.Background(), "z"); !errors.Is(err, ErrNoContext) {
		t.Errorf("got %v", err)
	}
}

// TestPlanUseOfSeveralFiles: the first file's current context is kubectl's; a
// later file that names one too does not count.
func TestPlanUseOfSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "1"), filepath.Join(dir, "2")
	for path, content := range map[string]string{first: "apiVersion: v1\nkind: Config\n", second: shared} {
		must.OK(t, os.WriteFile(path, []byte(content), 0o600))
	}
	r := Rules{Files: []string{first, second}}
	p, err := r.PlanUse(context.Background(), "b")
	must.OK(t, err)
	mustApply(t, p, Backups(folder(t)))
	list, err := r.List(context.Background())
	must.OK(t, err)
	for _, c := range list {
		if c.Current != (c.Name == "b") {
			t.Errorf("%s: current %v", c.Name, c.Current)
		}
	}
	if text(t, second) != shared {
		t.Error("the second file was written")
	}
}
