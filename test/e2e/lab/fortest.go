//go:build linux

package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/term"
)

// built is the program of a test binary, and the rights of the clusters that its
// tests use. A test binary has one TestMain, so one variable is what it is.
var built struct {
	binary string
	rights sync.Map // *controlplane.Cluster → func() error
}

// Main builds the program and runs the tests, see [controlplane.Main]. It belongs
// in the TestMain of a package that calls [ForTest].
func Main(m *testing.M) int { return controlplane.Main(withProgram{m}) }

type withProgram struct{ *testing.M }

func (w withProgram) Run() int {
	dir, err := os.MkdirTemp("", "kubehsm-lab-")
	if err == nil {
		defer os.RemoveAll(dir)
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
		defer cancel()
		built.binary, err = Build(ctx, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return w.M.Run()
}

// Person is a lab in a test. Its own methods end the test where something fails.
type Person struct {
	*Lab
	T *testing.T
}

// ForTest makes a lab on o.Cluster, or else on the package's shared control plane.
// It is closed with the test, which fails if a process is left.
func ForTest(t *testing.T, o Options) *Person {
	t.Helper()
	if o.Cluster == nil {
		o.Cluster = controlplane.ForTest(t)
	}
	need.Program(t, "softhsm2-util")
	once, _ := built.rights.LoadOrStore(o.Cluster, sync.OnceValue(func() error {
		return Rights(context.WithoutCancel(t.Context()), o.Cluster)
	}))
	if err := once.(func() error)(); err != nil {
		t.Fatal(err)
	}
	o.Binary = built.binary
	// Not t.TempDir: a test's name in it would make the agent's socket path too long.
	dir, err := os.MkdirTemp("", "kubehsm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	l, err := New(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(l.Home, "state", "agent.log")) // no agent has run if there is no log
			t.Logf("the agent's log:\n%s", log)
		}
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &Person{l, t}
}

// In is the person in a subtest.
func (p *Person) In(t *testing.T) *Person { return &Person{p.Lab, t} }

// Must ends the test on an error.
func (p *Person) Must(err error) {
	p.T.Helper()
	if err != nil {
		p.T.Fatal(err)
	}
}

// Do runs the lab's program, which must succeed.
func (p *Person) Do(args ...string) string {
	p.T.Helper()
	out, err := Succeeded(p.Kubehsm(p.T.Context(), args...))
	p.Must(err)
	return out
}

// Admin runs kubectl as the cluster's admin, which must succeed.
func (p *Person) Admin(args ...string) string {
	p.T.Helper()
	out, err := p.Cluster.Admin(p.T.Context(), "", args...)
	p.Must(err)
	return out
}

// Terminal runs a program on a terminal, with env added to the lab's.
func (p *Person) Terminal(env []string, program string, args ...string) *term.Session {
	p.T.Helper()
	return term.Run(p.T, term.Options{Path: program, Args: args, Dir: p.Dir, Env: append(p.Env(), env...), Columns: 100,
		Rows: 30})
}
