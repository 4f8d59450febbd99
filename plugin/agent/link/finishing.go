package link

import (
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// finishing knows whether the server is at something that must not be left half-way.
type finishing struct {
	tell hsm.Finishing
	mu   sync.Mutex
	open []func() // functions that end the operations begun
}

func newFinishing(tell hsm.Finishing) *finishing { return &finishing{tell: tell} }

// note takes down that something has begun, or ended.
func (f *finishing) note(begun bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch n := len(f.open); {
	case begun:
		f.open = append(f.open, f.tell.Begin())
	case n > 0:
		f.open[n-1]()
		f.open = f.open[:n-1]
	}
}

func (f *finishing) goesOn() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open) > 0
}

// end takes down that all has ended: the answer is there, or will not come.
func (f *finishing) end() {
	for f.goesOn() {
		f.note(false)
	}
}

// await returns true when answered is closed, or false when nothing has had to be finished
// for d.
func (f *finishing) await(answered <-chan struct{}, d time.Duration) bool {
	tick := time.NewTicker(d / 10)
	defer tick.Stop()
	for last := time.Now(); time.Since(last) < d; {
		select {
		case <-answered:
			return true
		case <-tick.C:
			if f.goesOn() {
				last = time.Now()
			}
		}
	}
	return false
}
