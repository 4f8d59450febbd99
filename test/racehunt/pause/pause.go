//go:build linux

// Package pause is what source that test/racehunt has rewritten calls before each
// statement: some of these places, which a seed picks, then wait.
package pause

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
)

// planFile is put in by the hunt. The environment would not do, since tests start
// programs with one of their own.
const planFile = ""

// Plan is what the file says: who waits how long.
type Plan struct {
	Seed uint64
	// Share of the places that wait, in a hundredth of a percent.
	Share uint64
	// Times is how often a place waits in one process; Longest is how long, in
	// milliseconds, at most. The shortest wait is of 3 ms.
	Times, Longest uint64
	// Trace is a file that is told of each wait.
	Trace string
}

const form = "seed %d share %d times %d longest %d trace %q\n"

// String is the file's form.
func (p Plan) String() string {
	return fmt.Sprintf(form, p.Seed, p.Share, p.Times, p.Longest, p.Trace)
}

var (
	plan = read(planFile)
	// reached counts; two places that share a counter wait less often.
	reached [1 << 16]atomic.Uint64
)

// read returns no plan where there is none: the hunt has ended, and a program that
// it built still runs.
func read(file string) *Plan {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var p Plan
	if _, err := fmt.Sscanf(string(text), form, &p.Seed, &p.Share, &p.Times, &p.Longest, &p.Trace); err != nil {
		panic("race hunt: " + err.Error())
	}
	return &p
}

// At waits if the plan has picked the place.
func At(place uint32) {
	if plan == nil {
		return
	}
	wait := plan.wait(place)
	if wait == 0 || reached[place%uint32(len(reached))].Add(1) > plan.Times {
		return
	}
	plan.trace(wait)
	// Not time.Sleep, which takes no time in a bubble of testing/synctest, and
	// blocks it for good if another goroutine wants a lock that this one holds.
	left := syscall.NsecToTimespec(int64(wait) * 1e6)
	for err := syscall.EINTR; err == syscall.EINTR; { // left is what a signal cut off
		err, _ = syscall.Nanosleep(&left, &left).(syscall.Errno)
	}
}

// wait is for how many milliseconds the place waits, by the same plan always the
// same: 0, or as often 3 to 5 as 6 to 11, and so on.
func (p *Plan) wait(place uint32) uint64 {
	h := mix(p.Seed<<32 ^ uint64(place))
	if h%10000 >= p.Share {
		return 0
	}
	steps := uint64(1)
	for 3<<steps < p.Longest {
		steps++
	}
	h = mix(h)
	least := uint64(3) << (h % steps)
	return min(least+mix(h)%least, p.Longest)
}

// mix is splitmix64's.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (p *Plan) trace(wait uint64) {
	_, file, line, _ := runtime.Caller(2)
	f, err := os.OpenFile(p.Trace, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return // a program that may not write there
	}
	fmt.Fprintf(f, "%s:%d waits %d ms in process %d\n", file, line, wait, os.Getpid())
	f.Close()
}
