package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

// shared is the cluster of a test binary. A test binary has one TestMain, so
// one variable is what it is.
var shared struct {
	once    sync.Once
	serving bool // Main is in charge
	cluster *Cluster
	err     error
	dir     string
}

// Main runs the tests and then stops the cluster that [ForTest] shared among
// them. It belongs in TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(controlplane.Main(m)) }
func Main(m interface{ Run() int }) int {
	shared.serving = true
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the shared control plane:", err)
		return max(code, 1)
	}
	return code
}

func stopShared() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	if shared.cluster != nil {
		errs = append(errs, shared.cluster.Stop(ctx))
	}
	if shared.dir != "" {
		errs = append(errs, os.RemoveAll(shared.dir))
	}
	return errors.Join(errs...)
}

// ForTest returns the control plane that the tests of a package share; the
// first call starts it. A test that stops or floods parts of it uses
// [StartForTest]. Where the programs are not built the test is skipped (or
// fails, under CI=true).
func ForTest(t testing.TB) *Cluster {
	t.Helper()
	if !shared.serving {
		t.Fatal("controlplane.ForTest needs controlplane.Main in the package's TestMain")
	}
	bin := binForTest(t, false)
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "kubehsm-cluster-"); shared.err != nil {
			return
		}
		// Not a test's context: the cluster outlives the test that asked first.
		shared.cluster, shared.err = Start(context.Background(), shared.dir, Options{Bin: bin})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// StartForTest starts a control plane for one test and stops it at the test's
// end. A failed test gets the end of the servers' logs.
func StartForTest(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Bin == "" {
		o.Bin = binForTest(t, o.Whole)
	}
	c, err := Start(t.Context(), t.TempDir(), o)
	must.OK(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			for _, component := range components {
				if _, err := os.Stat(c.logFile(component)); err != nil {
					continue // the component was never started
				}
				t.Logf("%s:\n%s", component, c.logTail(component, 10))
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

// binForTest finds the programs. It does not build them: that takes minutes,
// more than a test binary may have.
func binForTest(t testing.TB, whole bool) string {
	t.Helper()
	bin, current, err := Built(t.Context(), whole)
	must.OK(t, err)
	if !current {
		target := "cluster"
		if whole {
			target = "cluster-whole"
		}
		need.Missing(t, "the control plane is not built: run `make "+target+"`")
	}
	return bin
}
