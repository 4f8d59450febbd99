//go:build unix

package kubeconfig

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/must"
)

// TestUndoOfTheLast: what is taken back is the change that was made last: neither one that a killed
// process had only announced, nor one of another file that a clock, which was put back since, makes seem
// later. A change whose process was killed before it was confirmed counts.
func TestUndoOfTheLast(t *testing.T) {
	dir := folder(t)
	r := twoFiles(t, dir)
	j := Backups(filepath.Join(dir, "backups"))
	mustApply(t, mustPlan(t, Rules{Explicit: r.Files[0]}, entry("other")), j)
	last, _, err := j.place(r.Files[0])
	must.OK(t, err)
	b, err := readBackup(last)
	must.OK(t, err)
	b.Change = time.Now().AddDate(50, 0, 0).UnixNano()
	must.OK(t, b.write(last))
	first, before := text(t, r.Files[0]), text(t, r.Files[1])
	e := killEntry()
	e.SetCurrent = false // only the second file changes
	mustApply(t, mustPlan(t, r, e), j)
	changed := text(t, r.Files[1])
	if err := j.announce(mustPlan(t, r, killEntry())); err != nil { // The program was killed after this.
		t.Fatal(err)
	}
	undone := func(want string) {
		t.Helper()
		mustUndo(t, r, j)
		if text(t, r.Files[0]) != first || text(t, r.Files[1]) != want {
			t.Errorf("taken back:\n%s\n%s\nwant\n%s", text(t, r.Files[0]), text(t, r.Files[1]), want)
		}
	}
	undone(before)
	undone(changed)
	last, announced, err := j.place(r.Files[1])
	if err == nil {
		err = os.Rename(last, announced) // The program was killed before it did the reverse.
	}
	must.OK(t, err)
	undone(before)
	undone(changed)
	if err := os.Rename(last, announced); err != nil { // The same, and the next one was killed too.
		t.Fatal(err)
	}
	e.Server += "-2"
	must.OK(t, j.announce(mustPlan(t, r, e)))
	undone(before)
}

// TestEmptyPlanFreesTheFile: a process that was killed when all but its lock was done
// leaves nothing to change; the lock, which kubectl would take for a living one's, goes.
func TestEmptyPlanFreesTheFile(t *testing.T) {
	r, path := one(t, kubectlStyle)
	mustApply(t, mustPlan(t, r, entry("prod")), "")
	again := mustPlan(t, r, entry("prod"))
	if !again.Empty() {
		t.Fatal("there is something to change")
	}
	held, err := makeLock(lockName(path))
	must.OK(t, err)
	must.OK(t, again.Apply(context.Background(), ""))
	if _, err := os.Lstat(lockName(path)); err != nil {
		t.Errorf("the lock of a process that lives: %v", err)
	}
	if err := held.Close(); err != nil { // The end of a process does the same.
		t.Fatal(err)
	}
	must.OK(t, again.Apply(context.Background(), ""))
	if _, err := os.Lstat(lockName(path)); !os.IsNotExist(err) {
		t.Errorf("the lock of a process that has died: %v", err)
	}
}
