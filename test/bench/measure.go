//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// program is a side that is a whole process.
type program struct {
	path string
	args []string
	env  []string
}

// run runs p once, whole process, and returns how long it took. What p says goes to
// a file, as to a terminal: somebody who reads from a pipe would run beside it.
func (p program) run(ctx context.Context) (took time.Duration, err error) {
	stderr, err := os.CreateTemp("", "stderr-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stderr.Close(), os.Remove(stderr.Name())) }()
	cmd := exec.CommandContext(ctx, p.path, p.args...)
	cmd.Env, cmd.Stderr = p.env, stderr
	begin := time.Now()
	err = cmd.Run()
	took = time.Since(begin)
	if err != nil {
		said, readErr := os.ReadFile(stderr.Name())
		return 0, errors.Join(fmt.Errorf("%s %s: %w: %s", p.path, strings.Join(p.args, " "), err, said), readErr)
	}
	return took, nil
}

// pair is what two programs took.
type pair struct {
	ours, theirs time.Duration
	// low and high are the 95 % interval of the ratio; 0 where nobody knows it.
	low, high float64
}

func (p pair) ratio() float64 { return float64(p.ours) / float64(p.theirs) }

// timed is one side of a pair.
type timed interface {
	run(ctx context.Context) (time.Duration, error)
}

// measure runs ours and theirs n times in turn and returns the medians, with the
// interval of their ratio. What
// goes first changes from pair to pair. The first pair, which fills caches, does
// not count.
func measure(ctx context.Context, n int, ours, theirs timed) (pair, error) {
	var a, b []time.Duration
	for i := range n + 1 {
		both := []timed{ours, theirs}
		if i%2 == 1 {
			slices.Reverse(both)
		}
		var took [2]time.Duration
		for j, p := range both {
			d, err := p.run(ctx)
			if err != nil {
				return pair{}, err
			}
			took[j] = d
		}
		if i%2 == 1 {
			slices.Reverse(took[:])
		}
		if i > 0 {
			a, b = append(a, took[0]), append(b, took[1])
		}
	}
	p := pair{ours: median(a), theirs: median(b)}
	p.low, p.high = interval(a, b)
	return p, nil
}

// resamples are how often [interval] draws.
const resamples = 2000

// interval is the 95 % interval of the ratio of the medians of a and b, which were
// measured in pairs: the percentile bootstrap. The same measurements have the same
// interval.
func interval(a, b []time.Duration) (low, high float64) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a fixed seed makes results repeatable
	ratios := make([]float64, resamples)
	x, y := make([]time.Duration, len(a)), make([]time.Duration, len(b))
	for i := range ratios {
		for j := range x {
			k := random.IntN(len(a))
			x[j], y[j] = a[k], b[k]
		}
		ratios[i] = pair{ours: median(x), theirs: median(y)}.ratio()
	}
	slices.Sort(ratios)
	return ratios[resamples/40], ratios[resamples-1-resamples/40]
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	if n := len(d); n%2 == 0 {
		return (d[n/2-1] + d[n/2]) / 2
	}
	return d[len(d)/2]
}
