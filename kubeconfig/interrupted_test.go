//go:build unix

package kubeconfig

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestUndoOfTheLast: what is taken back without a name is the change that was made
// last: neither one that a killed process had only announced, nor one that a clock,
// which was put back since, makes seem later.
func TestUndoOfTheLast(t *testing.T) {
	r, path := one(t, kubectlStyle)
	j := &Journal{Dir: filepath.Join(folder(t), "journal")}
	first := mustApply(t, mustPlan(t, r, entry("prod")), j)
	if err := os.Rename(j.path(first.ID), j.path(time.Now().AddDate(50, 0, 0).UTC().Format(stepTime))); err != nil {
		t.Fatal(err)
	}
	var before string
	for _, server := range []string{"https://127.0.0.1:9/c/one", "https://127.0.0.1:9/c/two"} {
		before = text(t, path)
		e := entry("prod")
		e.Server = server
		mustApply(t, mustPlan(t, r, e), j)
	}
	if _, _, err := j.begin(mustPlan(t, r, killEntry())); err != nil { // The program was killed after this.
		t.Fatal(err)
	}
	mustUndo(t, j)
	if now := text(t, path); now != before {
		t.Errorf("taken back:\n%s\nwant\n%s", now, before)
	}
}

// TestEmptyPlanFreesTheFile: a process that was killed when all but its lock was done
// leaves nothing to change; the lock, which kubectl would take for a living one's, goes.
func TestEmptyPlanFreesTheFile(t *testing.T) {
	r, path := one(t, kubectlStyle)
	mustApply(t, mustPlan(t, r, entry("prod")), nil)
	again := mustPlan(t, r, entry("prod"))
	if !again.Empty() {
		t.Fatal("there is something to change")
	}
	held, err := makeLock(lockName(path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Apply(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(lockName(path)); err != nil {
		t.Errorf("the lock of a process that lives: %v", err)
	}
	if err := held.Close(); err != nil { // The end of a process does the same.
		t.Fatal(err)
	}
	if _, err := again.Apply(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(lockName(path)); !os.IsNotExist(err) {
		t.Errorf("the lock of a process that has died: %v", err)
	}
}
