package kubeconfig

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/nolocks"
)

func TestMain(m *testing.M) {
	nolocks.Main()
	os.Exit(m.Run())
}

// withoutLocks tells that this process is the one without locks.
const withoutLocks = "KUBEHSM_TEST_WITHOUT_LOCKS"

// TestApplyWithoutLocks: where the file system keeps no locks, client-go's lock files alone
// keep a kubeconfig from being changed twice at a time.
func TestApplyWithoutLocks(t *testing.T) {
	if os.Getenv(withoutLocks) == "" {
		self, err := os.Executable()
		must.OK(t, err)
		c := nolocks.Command(t, []string{withoutLocks + "=1"}, self, "-test.run", "^"+t.Name()+"$", "-test.v")
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "config")
	p := mustPlan(t, Rules{Explicit: path}, entry("prod"))
	must.OK(t, os.WriteFile(path+".lock", nil, 0))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := p.Apply(ctx, ""); !errors.Is(err, ErrLocked) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another program holds client-go's lock: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was written: %v", err)
	}
	must.OK(t, os.Remove(path+".lock"))
	must.OK(t, p.Apply(t.Context(), ""))
	b, err := os.ReadFile(path)
	left, gerr := filepath.Glob(path + ".lock*")
	if err := errors.Join(err, gerr); err != nil || !strings.Contains(string(b), "prod") || len(left) > 0 {
		t.Errorf("%v, left %q:\n%s", err, left, b)
	}
}
