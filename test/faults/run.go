//go:build linux && cgo

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

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
	// faults are how many the run is to make, struck how many it has made.
	faults int64
	struck atomic.Int64

	cards sync.Mutex // Commands look at all readers: one card at a time.
	softs sync.Mutex // SoftHSM2's configuration is this process's
}

// episode runs the episode with that number, all its steps or until enough faults have
// struck in this run.
func (r *runner) episode(ctx context.Context, number int) (err error) {
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
		seed: r.seed + uint64(number)<<32}
	first, err := e.config()
	e.model = model{enrolled: map[string]*enrolled{}, first: first}
	for n := range stepsEach {
		if err != nil || n > 0 && r.struck.Load() >= r.faults {
			break
		}
		before := e.struck
		err = e.step(ctx, n)
		r.struck.Add(int64(e.struck - before))
	}
	if err == nil {
		err = e.finalCheck(ctx)
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(e.Home, "state", "agent.log")) // Without an agent, no log is there.
		err = fmt.Errorf("SEED=%d EPISODE=%d go test ./test/faults -run TestFaults\n%w\n%s\nthe agent's log:\n%s",
			r.seed, number, err, strings.Join(e.history, "\n"), log)
	}
	// Whatever has happened, nothing stays.
	if left, lerr := e.Processes(); lerr == nil {
		for pid := range left {
			signal(pid, 9)
		}
	}
	return errors.Join(err, w.release())
}
