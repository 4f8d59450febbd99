//go:build unix

package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

func TestApplyKeepsTheFile(t *testing.T) {
	t.Run("new file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "new", "dir", "config")
		j := Backups(filepath.Join(t.TempDir(), "state", "kubeconfig"))
		r := Rules{Explicit: path}
		p := mustPlan(t, r, entry("prod"))
		if f := p.Files(); len(f) != 1 || !f[0].Created {
			t.Errorf("files %v", f)
		}
		if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
			t.Error("Plan has made a folder")
		}
		mustApply(t, p, j)
		checkEntry(t, path, "prod")
		for name, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700 | fs.ModeDir,
			string(j): 0o700 | fs.ModeDir} {
			if info, err := os.Stat(name); err != nil || info.Mode() != want {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
		files, err := os.ReadDir(string(j))
		if err != nil || len(files) != 1 {
			t.Fatalf("backups %v, %v", files, err)
		}
		if info, err := files[0].Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("backup's mode %v, %v", info.Mode(), err)
		}
		undo, err := r.PlanUndo(context.Background(), j)
		must.OK(t, err)
		if f := undo.Files(); len(f) != 1 || !f[0].Removed || !strings.Contains(undo.Diff(), "+++ /dev/null") {
			t.Errorf("files %v, diff %s", f, undo.Diff())
		}
		mustApply(t, undo, j)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Error("undo has left the file that the change made")
		}
		if undo, err = r.PlanUndo(context.Background(), j); err != nil {
			t.Fatal(err)
		}
		mustApply(t, undo, j)
		checkEntry(t, path, "prod")
	})
	t.Run("link and mode", func(t *testing.T) {
		dir := t.TempDir()
		target, link := filepath.Join(dir, "dotfiles", "kube"), filepath.Join(dir, "config")
		must.OK(t, errors.Join(os.Mkdir(filepath.Dir(target), 0o755), os.WriteFile(target, []byte(kubectlStyle), 0o644),
			os.Symlink("dotfiles/kube", link)))
		p := mustPlan(t, Rules{Explicit: link}, entry("prod"))
		if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "0644") {
			t.Errorf("notes %q", p.Notes)
		}
		mustApply(t, p, "")
		checkEntry(t, target, "prod")
		if to, err := os.Readlink(link); err != nil || to != "dotfiles/kube" {
			t.Errorf("the link is %q, %v", to, err)
		}
		if info, err := os.Stat(target); err != nil || info.Mode() != 0o644 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		if err != nil || len(left) != 1 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	t.Run("owner", func(t *testing.T) {
		if os.Geteuid() != 0 {
			need.Missing(t, "only root can keep another user's ownership")
		}
		r, path := one(t, kubectlStyle)
		must.OK(t, os.Chown(path, 12345, 23456))
		mustApply(t, mustPlan(t, r, entry("prod")), "")
		info, err := os.Stat(path)
		must.OK(t, err)
		if s := info.Sys().(*syscall.Stat_t); s.Uid != 12345 || s.Gid != 23456 {
			t.Errorf("owner %d:%d", s.Uid, s.Gid)
		}
	})
	t.Run("read-only", func(t *testing.T) {
		r, path := one(t, kubectlStyle)
		must.OK(t, os.Chmod(path, 0o400))
		plan := mustPlan(t, r, entry("prod"))
		err := plan.Apply(context.Background(), "")
		for _, err := range []error{plan.Writable(), err} {
			var h interface{ Hint() string }
			if !errors.Is(err, ErrReadOnly) || !errors.As(err, &h) || !strings.Contains(h.Hint(), "--kubeconfig") {
				t.Errorf("error %v", err)
			}
		}
		if text(t, path) != kubectlStyle {
			t.Error("a read-only file was replaced")
		}
		onlyFile(t, path)
	})
}

// TestWritable: what can be written is, in folders that are still to be made and through links too.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.Symlink("x/y/config", filepath.Join(dir, "link")))
	for _, path := range []string{"config", "a/b/config", "link"} {
		p := mustPlan(t, Rules{Explicit: "", Files: []string{filepath.Join(dir, path)}}, entry("prod"))
		if err := p.Writable(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("it left %v, %v", entries, err)
	}
	if os.Geteuid() == 0 {
		return // no folder is closed to root
	}
	closed := filepath.Join(dir, "closed")
	must.OK(t, os.Mkdir(closed, 0o500))
	p := mustPlan(t, Rules{Files: []string{filepath.Join(closed, "new", "config")}}, entry("prod"))
	if err := p.Writable(); !errors.Is(err, ErrReadOnly) {
		t.Errorf("a folder that takes nothing: %v", err)
	}
}

// onlyFile checks that nothing lies beside path.
func onlyFile(t *testing.T, path string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestApplyRefusesChangedFiles(t *testing.T) {
	r, path := one(t, kubectlStyle)
	p := mustPlan(t, r, entry("prod"))
	must.OK(t, os.WriteFile(path, []byte(kubectlStyle+"# new\n"), 0o600))
	if err := p.Apply(context.Background(), ""); !errors.Is(err, ErrChanged) {
		t.Errorf("error %v", err)
	}
	if text(t, path) != kubectlStyle+"# new\n" {
		t.Error("the file was overwritten")
	}
	onlyFile(t, path)
	mustApply(t, mustPlan(t, r, entry("prod")), "")
	checkEntry(t, path, "prod")
}

func TestLocks(t *testing.T) {
	r, path := one(t, kubectlStyle)
	p := mustPlan(t, r, entry("prod"))
	name := path + ".lock"
	must.OK(t, os.WriteFile(name, nil, 0))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var busy *LockError
	if err := p.Apply(ctx, ""); !errors.As(err, &busy) || !errors.Is(err, ErrLocked) || busy.Stale() ||
		busy.Path != name {
		t.Errorf("fresh lock: %v", err)
	}
	gone, stop := context.WithCancel(context.Background())
	stop()
	if err := p.Apply(gone, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	old := time.Now().Add(-time.Hour)
	must.OK(t, os.Chtimes(name, old, old))
	must.OK(t, errors.Join(os.Chmod(name, 0o600), os.WriteFile(name, []byte("somebody's own"), 0o600),
		os.Chtimes(name, old, old)))
	err := p.Apply(context.Background(), "")
	if !errors.As(err, &busy) || !busy.Stale() || !strings.Contains(busy.Hint(), "rm "+name) {
		t.Errorf("a stale lock of a kind that nobody knows: %v", err)
	}
	if text(t, name) != "somebody's own" || text(t, path) != kubectlStyle {
		t.Error("the lock was broken")
	}
	// A lock that goes away is waited for.
	now := time.Now()
	must.OK(t, errors.Join(os.Truncate(name, 0), os.Chmod(name, 0), os.Chtimes(name, now, now)))
	done := make(chan error)
	go func() {
		err := p.Apply(context.Background(), "")
		done <- err
	}()
	must.OK(t, os.Remove(name))
	if err := <-done; err != nil {
		t.Error(err)
	}
	checkEntry(t, path, "prod")
	onlyFile(t, path)
}

// TestConcurrentWriters runs kubectl's own writer against ours: each adds its
// contexts, and none is lost.
func TestConcurrentWriters(t *testing.T) {
	r, path := one(t, kubectlStyle)
	j := Backups(folder(t))
	const each = 8
	var wg sync.WaitGroup
	work := func(one func(i int) (again bool, err error)) {
		defer wg.Done()
		for i := range each {
			for {
				again, err := one(i)
				if err != nil {
					t.Error(err)
					return
				}
				if !again {
					break
				}
			}
		}
	}
	wg.Add(3)
	go work(func(i int) (bool, error) {
		err := underLock(path, fmt.Sprintf("theirs-%d", i))
		return errors.Is(err, fs.ErrExist), err2(err, fs.ErrExist) // client-go does not wait for the lock
	})
	for _, who := range []string{"a", "b"} {
		go work(func(i int) (bool, error) {
			e := entry(fmt.Sprintf("ours-%s-%d", who, i))
			e.SetCurrent = false
			p, err := r.Plan(context.Background(), e, Options{})
			if errors.Is(err, ErrParse) {
				return true, nil // read while client-go, which truncates, was writing
			}
			if err != nil {
				return false, err
			}
			err = p.Apply(context.Background(), j)
			return errors.Is(err, ErrChanged) || errors.Is(err, ErrLocked), err2(err, ErrChanged, ErrLocked)
		})
	}
	wg.Wait()
	c, err := clientcmd.LoadFromFile(path)
	must.OK(t, err)
	for i := range each {
		if c.Contexts[fmt.Sprintf("theirs-%d", i)] == nil {
			t.Errorf("client-go's context %d is lost", i)
		}
		for _, who := range []string{"a", "b"} {
			name := fmt.Sprintf("ours-%s-%d", who, i)
			if c.Contexts[name] == nil || c.Clusters[name] == nil || c.AuthInfos[name] == nil {
				t.Errorf("our context %s is lost", name)
			}
		}
	}
	onlyFile(t, path)
}

// underLock adds a context as client-go writes it, truncating the file under its
// lock, but also reads it there: ModifyConfig's callers read before, and undo
// whatever anybody wrote in between.
func underLock(path, name string) error {
	lock, err := os.OpenFile(lockName(path), os.O_CREATE|os.O_EXCL, 0)
	if err != nil {
		return err
	}
	err = lock.Close()
	c, rerr := clientcmd.LoadFromFile(path)
	if err = errors.Join(err, rerr); err == nil {
		c.Contexts[name] = api.NewContext()
		c.Contexts[name].Cluster, c.Contexts[name].AuthInfo = name, name
		err = clientcmd.WriteToFile(*c, path)
	}
	return errors.Join(err, os.Remove(lockName(path)))
}

// err2 is err unless it is one of expected.
func err2(err error, expected ...error) error {
	for _, e := range expected {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

// TestDiskFull applies on a file system of 64 KiB, in a mount namespace of its
// own.
func TestDiskFull(t *testing.T) {
	if dir := os.Getenv("KUBECONFIG_TEST_FULL"); dir != "" {
		diskFull(t, dir)
		return
	}
	unshare := need.Program(t, "unshare")
	if out, err := exec.Command(unshare, "-Urm", "true").CombinedOutput(); err != nil {
		need.Missing(t, "no user and mount namespaces: "+strings.TrimSpace(string(out)))
	}
	dir := t.TempDir()
	cmd := exec.Command(unshare, "-Urm", "sh", "-ec",
		`mount -t tmpfs -o size=64k none "$KUBECONFIG_TEST_FULL"; exec "$0" -test.run='^TestDiskFull$' -test.v`, os.Args[0])
	cmd.Env = append(os.Environ(), "KUBECONFIG_TEST_FULL="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS: TestDiskFull") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func diskFull(t *testing.T, dir string) {
	path := filepath.Join(dir, "config")
	data := kubectlStyle + "# " + strings.Repeat("x", 40<<10) + "\n"
	must.OK(t, os.WriteFile(path, []byte(data), 0o600))
	err := mustPlan(t, Rules{Explicit: path}, entry("prod")).Apply(context.Background(), "")
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v, want no space", err)
	}
	if text(t, path) != data {
		t.Error("the file has changed")
	}
	onlyFile(t, path)
}
