//go:build linux && cgo

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// workers is how many episodes go on at a time: much of one is waiting. The last of
// them has the cards.
const workers = 4

// stepsEach is how many steps an episode has.
const stepsEach = 16

// onCard tells whether an episode is one with a PIV card.
func onCard(number int) bool { return number%workers == workers-1 }

// runner runs episodes.
type runner struct {
	binary  string
	cluster *controlplane.Cluster
	readers *vcard.Lab
	seed    uint64
	most    int // failures after which no episode begins
	// faults are how many the run is to make, struck how many it has made.
	faults int64
	struck atomic.Int64

	cards sync.Mutex // Commands look at all readers: one card at a time.
	softs sync.Mutex // SoftHSM2's configuration is this process's
	mu    sync.Mutex
	took  map[string]time.Duration
	times map[string]int
}

// failure is an episode that went wrong.
type failure struct {
	episode int
	steps   []int // steps made
	history []string
	log     string
	err     error
}

func (f *failure) Error() string {
	return fmt.Sprintf("%v\n%s\nthe agent's log:\n%s", f.err, strings.Join(f.history, "\n"), f.log)
}

// episode runs the steps of the episode with that number; if steps is nil all, or until
// enough faults have struck in this run. It returns a *failure.
func (r *runner) episode(ctx context.Context, number int, steps []int) (err error) {
	all := steps == nil
	if all {
		for n := range stepsEach {
			steps = append(steps, n)
		}
	}
	var tok token = &soft{}
	if onCard(number) {
		r.cards.Lock()
		defer r.cards.Unlock()
		tok = newCard(r.readers, 0, uint32(10000000+number))
	}
	// A short name: the agent's socket is in it.
	dir, err := os.MkdirTemp("", "kubehsm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r.softs.Lock()
	w, err := newWorld(ctx, dir, r.binary, r.cluster, tok)
	r.softs.Unlock()
	if err != nil {
		return err
	}
	e := &episode{world: w, id: strings.ToLower(strings.TrimPrefix(filepath.Base(dir), "kubehsm-")),
		seed: r.seed + uint64(number)<<32, took: map[string]time.Duration{}}
	first, err := e.config()
	e.model = model{enrolled: map[string]*enrolled{}, first: first}
	made := 0
	for _, n := range steps {
		if err != nil || all && made > 0 && r.struck.Load() >= r.faults {
			break
		}
		before := e.struck
		err = e.step(ctx, n)
		r.struck.Add(int64(e.struck - before))
		made++
	}
	if err == nil {
		err = e.finalCheck(ctx)
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(e.Home, "state", "agent.log")) // Without an agent, no log is there.
		err = &failure{number, steps[:made], e.history, string(log), err}
	}
	r.mu.Lock()
	for what, d := range e.took {
		r.took[what] += d
		r.times[what]++
	}
	r.mu.Unlock()
	// Whatever has happened, nothing stays.
	if left, lerr := e.Processes(); lerr == nil {
		for pid := range left {
			signal(pid, 9)
		}
	}
	return errors.Join(err, w.release())
}

// shrink leaves out what a failure does not need, until deadline.
func (r *runner) shrink(ctx context.Context, f *failure, deadline time.Time) *failure {
	for i := len(f.steps) - 2; i > 0 && time.Now().Before(deadline); i-- {
		if i >= len(f.steps) {
			continue
		}
		err := r.episode(ctx, f.episode, slices.Delete(slices.Clone(f.steps), i, i+1))
		var again *failure
		if errors.As(err, &again) {
			f = again
		}
	}
	return f
}
