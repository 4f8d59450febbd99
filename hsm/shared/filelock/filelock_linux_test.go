package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/nolocks"
)

// tryLocks is the variable that has this program lock a file.
const tryLocks = "KUBEHSM_TEST_LOCK"

func TestMain(m *testing.M) {
	nolocks.Main()
	if path := os.Getenv(tryLocks); path != "" {
		os.Exit(try(New(path)))
	}
	os.Exit(m.Run())
}

// try locks in every way.
func try(l Lock) (code int) {
	ctx := context.Background()
	for name, take := range map[string]func() error{
		"Lock":            l.Lock,
		"TryLock":         func() error { _, err := l.TryLock(); return err },
		"TryLockContext":  func() error { _, err := l.TryLockContext(ctx, time.Second); return err },
		"TryRLockContext": func() error { _, err := l.TryRLockContext(ctx, time.Second); return err },
	} {
		err := take()
		if !errors.Is(err, ErrNoLocks) || !errors.Is(err, syscall.ENOLCK) || !strings.Contains(hint.Of(err), "local disk") {
			fmt.Printf("%s: %v, hint %q\n", name, err, hint.Of(err))
			code = 1
		}
	}
	return code
}

// TestNoLocks: a lock that the file system refuses is an error that says so, and what to do.
func TestNoLocks(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := nolocks.Command(t, []string{tryLocks + "=" + filepath.Join(t.TempDir(), "lock")}, self)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestExplain: only what says that there are no locks is taken for that.
func TestExplain(t *testing.T) {
	for _, err := range []error{nil, fs.ErrPermission, context.Canceled, syscall.EINTR} {
		if got := Explain(err, "/a"); got != err {
			t.Errorf("%v: %v", err, got)
		}
	}
	for _, err := range []error{syscall.ENOLCK, syscall.ENOSYS, syscall.ENOTSUP, syscall.EOPNOTSUPP} {
		if got := Explain(&fs.PathError{Op: "flock", Path: "/a", Err: err}, "/a"); !errors.Is(got, ErrNoLocks) {
			t.Errorf("%v: %v", err, got)
		}
	}
}
