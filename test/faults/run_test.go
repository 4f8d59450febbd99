//go:build linux && cgo

package faults

import (
	"context"
	"errors"
	"math"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/vcard"
)

func TestMain(m *testing.M) { os.Exit(vcard.Main(inside{m})) }

// inside is what runs in the namespaces: the control plane must, too, as they have a
// network of their own.
type inside struct{ *testing.M }

func (i inside) Run() int { return controlplane.Main(i.M) }

// number is what the environment says, or else otherwise.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, text, err)
	}
	return n
}

// prepare builds the program, with defects, and makes what all episodes share.
func prepare(t *testing.T, defects ...change) *runner {
	t.Helper()
	began := time.Now()
	vcard.Private(t)
	need.Program(t, "softhsm2-util")
	r := &runner{readers: vcard.ForTest(t), cluster: controlplane.ForTest(t), seed: uint64(number(t, "SEED", 1))}
	var err error
	if r.binary, err = build(t.Context(), t.TempDir(), defects...); err != nil {
		t.Fatal(err)
	}
	t.Log("built after", time.Since(began))
	if err := r.joinable(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// joinable gives the cluster what `kubehsm join` needs.
func (r *runner) joinable(ctx context.Context) error {
	if err := errors.Join(lab.Rights(ctx, r.cluster), r.cluster.PublishInfo(ctx, r.cluster.Server())); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kubehsm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := lab.New(dir, lab.Options{Binary: r.binary, Cluster: r.cluster})
	if err != nil {
		return err
	}
	return l.ApplyRoles(ctx)
}

// TestFaults runs FAULTS faults (200) of SEED (1). EPISODE repeats one episode: a failure says which.
func TestFaults(t *testing.T) {
	r := prepare(t)
	if os.Getenv("EPISODE") != "" {
		r.faults = math.MaxInt64
		if err := r.episode(t.Context(), number(t, "EPISODE", 0)); err != nil {
			t.Error(err)
		}
		return
	}
	began := time.Now()
	struck, err := r.run(t.Context(), number(t, "FAULTS", 200))
	t.Logf("seed %d: %d faults in %s", r.seed, struck, time.Since(began).Round(time.Second))
	if err != nil {
		t.Error(err)
	}
}

// run runs episodes until so many faults have struck, or one has failed.
func (r *runner) run(ctx context.Context, faults int) (int64, error) {
	r.faults = int64(faults)
	var failed atomic.Bool
	var group errgroup.Group
	for worker := range workers {
		group.Go(func() error {
			for number := worker; !failed.Load() && r.struck.Load() < r.faults && ctx.Err() == nil; number += workers {
				if err := r.episode(ctx, number); err != nil {
					failed.Store(true)
					return err
				}
			}
			return ctx.Err()
		})
	}
	err := group.Wait()
	return r.struck.Load(), err
}
