//go:build unix

package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/test/must"
)

// TestKilled kills a process at every step of Apply: both files are the old or
// the new ones, and the next run heals what was left.
func TestKilled(t *testing.T) {
	if step := os.Getenv("KUBECONFIG_TEST_KILL"); step != "" {
		killSelf(t, step)
		return
	}
	for _, step := range []string{"locked", "prepared 1", "prepared 2", "announced", "renamed 1", "renamed 2", "written"} {
		t.Run(step, func(t *testing.T) {
			dir := folder(t)
			r := twoFiles(t, dir)
			before := [2]string{text(t, r.Files[0]), text(t, r.Files[1])}
			cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
			cmd.Env = append(os.Environ(), "KUBECONFIG_TEST_KILL="+step, "KUBECONFIG_TEST_DIR="+dir)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
				t.Fatalf("the helper was not killed: %v\n%s", err, out)
			}
			for i, path := range r.Files {
				now := text(t, path)
				if isNew := strings.Contains(now, "127.0.0.1:9/") ||
					strings.Contains(now, currentContext+": prod"); now != before[i] && !isNew {
					t.Errorf("%s is neither old nor new:\n%s", path, now)
				}
				if _, err := clientcmd.LoadFromFile(path); err != nil {
					t.Error(err)
				}
				if _, err := os.Lstat(path + ".lock"); err != nil {
					t.Fatal(err) // without a lock left behind the test heals nothing
				}
			}
			j := Backups(filepath.Join(dir, "backups"))
			// Undo of the interrupted change leads back from wherever it stopped.
			if text(t, r.Files[0]) != before[0] || text(t, r.Files[1]) != before[1] {
				mustUndo(t, r, j)
			}
			if text(t, r.Files[0]) != before[0] || text(t, r.Files[1]) != before[1] {
				t.Error("undo did not restore the files")
			}
			mustApply(t, mustPlan(t, r, killEntry()), j)
			checkCurrent(t, r)
			left, err := os.ReadDir(filepath.Join(dir, "kube"))
			if err != nil || len(left) != 2 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func twoFiles(t *testing.T, dir string) Rules {
	t.Helper()
	a, b := filepath.Join(dir, "kube", "a"), filepath.Join(dir, "kube", "b")
	e := entry("prod")
	e.SetCurrent = false
	mustApply(t, mustPlan(t, Rules{Explicit: b}, e), "")
	must.OK(t, os.WriteFile(a, []byte(kubectlStyle), 0o600))
	return Rules{Files: []string{a, b}}
}

func killEntry() Entry {
	e := entry("prod")
	e.Server = "https://127.0.0.1:9/c/prod"
	return e
}

func checkCurrent(t *testing.T, r Rules) {
	t.Helper()
	c, err := r.Get(context.Background(), "")
	if err != nil || c.Name != "prod" || c.Cluster.Server != killEntry().Server {
		t.Errorf("%+v, %v", c, err)
	}
}

// killSelf is the helper process.
func killSelf(t *testing.T, step string) {
	dir := os.Getenv("KUBECONFIG_TEST_DIR")
	p := mustPlan(t, Rules{Files: []string{filepath.Join(dir, "kube", "a"), filepath.Join(dir, "kube", "b")}}, killEntry())
	count := map[string]int{}
	p.fault = func(s string) {
		count[s]++
		if s == step || fmt.Sprintf("%s %d", s, count[s]) == step {
			must.OK(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
			select {}
		}
	}
	err := p.Apply(context.Background(), Backups(filepath.Join(dir, "backups")))
	t.Fatalf("survived %s: %v", step, err)
}

// TestSweep: an edit removes what killed ones have left of the same file, and
// nothing else.
func TestSweep(t *testing.T) {
	r, path := one(t, kubectlStyle)
	beside := func(name string) string { return filepath.Join(filepath.Dir(path), name) }
	stays := []string{".config.kubehsm-", ".config.kubehsm-1x", ".config.kubehsm-x.kubehsm-1", ".other.kubehsm-1",
		"config.kubehsm-1"}
	if os.Geteuid() == 0 {
		stays = append(stays, ".config.kubehsm-2") // another user's
	}
	for _, name := range append(stays, ".config.kubehsm-1") {
		must.OK(t, os.WriteFile(beside(name), []byte("token: sesame"), 0o600))
	}
	if os.Geteuid() == 0 {
		must.OK(t, os.Chown(beside(".config.kubehsm-2"), 65534, 65534))
	}
	mustApply(t, mustPlan(t, r, entry("prod")), "")
	if _, err := os.Lstat(beside(".config.kubehsm-1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an unfinished file is still there: %v", err)
	}
	for _, name := range stays {
		if _, err := os.Lstat(beside(name)); err != nil {
			t.Error(err)
		}
	}
}
