//go:build linux && cgo

package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
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
	r := &runner{readers: vcard.ForTest(t), cluster: controlplane.ForTest(t), seed: uint64(number(t, "SEED", 1)),
		took: map[string]time.Duration{}, times: map[string]int{}}
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

// TestFaults runs FAULTS faults (200) of SEED (1). EPISODE and STEPS, numbers with
// commas between them, repeat a part: a failure says which.
func TestFaults(t *testing.T) {
	r := prepare(t)
	began := time.Now()
	if os.Getenv("EPISODE") != "" {
		r.faults = math.MaxInt64
		var steps []int
		for _, s := range strings.FieldsFunc(os.Getenv("STEPS"), func(c rune) bool { return c == ',' }) {
			n, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, n)
		}
		if err := r.episode(t.Context(), number(t, "EPISODE", 0), steps); err != nil {
			t.Error(err)
		}
		return
	}
	r.most = number(t, "FAILURES", 1)
	struck, failures := r.run(t.Context(), number(t, "FAULTS", 200))
	t.Logf("seed %d: %d faults in %s", r.seed, struck, time.Since(began).Round(time.Second))
	for what, d := range r.took {
		t.Logf("%s: %s in %d episodes", what, d.Round(time.Millisecond), r.times[what])
	}
	for i, err := range failures {
		var f *failure
		if errors.As(err, &f) {
			if i == 0 && os.Getenv("SHRINK") != "0" {
				f = r.shrink(t.Context(), f, time.Now().Add(poll.Patience))
			}
			t.Errorf("SEED=%d EPISODE=%d STEPS=%s go test ./test/faults -run TestFaults\n%v", r.seed, f.episode, commas(f.steps),
				f)
			continue
		}
		t.Error(err)
	}
}

func commas(steps []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(steps), "[]"), " ", ",")
}

// run runs episodes until so many faults have struck, or too many have failed.
func (r *runner) run(ctx context.Context, faults int) (int64, []error) {
	r.faults = int64(faults)
	var mu sync.Mutex
	var failures []error
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for number := worker; ; number += workers {
				mu.Lock()
				over := len(failures) >= r.most
				mu.Unlock()
				if over || r.struck.Load() >= r.faults || ctx.Err() != nil {
					return
				}
				if err := r.episode(ctx, number, nil); err != nil {
					mu.Lock()
					failures = append(failures, err)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return r.struck.Load(), failures
}
