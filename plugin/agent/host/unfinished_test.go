package host

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/plugin/home"
)

// TestAgentSweepsTheState: an agent removes what killed processes have left
// unfinished, and what they have finished stays.
func TestAgentSweepsTheState(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	unfinished := filepath.Join(r.dirs.State, "enrollments", home.TempName("prod.json")+"1")
	check(t, home.MakeDir(filepath.Dir(unfinished)))
	check(t, os.WriteFile(unfinished, []byte("{"), 0o600))
	old := time.Now().Add(-24 * time.Hour)
	check(t, os.Chtimes(unfinished, old, old))
	r.serve(Options{})
	if _, err := os.Lstat(unfinished); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	check(t, only(r.store.Load("prod")))
}
