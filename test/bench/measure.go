//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
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
	// code is the exit code that it has when all is well.
	code int
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
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if code := cmd.ProcessState.ExitCode(); code != p.code {
		said, err := os.ReadFile(stderr.Name())
		return 0, errors.Join(fmt.Errorf("%s %s: exit code %d, not %d: %s", p.path, strings.Join(p.args, " "), code, p.code,
			said), err)
	}
	return took, nil
}

// pair is what two programs took.
type pair struct{ ours, theirs time.Duration }

func (p pair) ratio() float64 { return float64(p.ours) / float64(p.theirs) }

// timed is one side of a pair.
type timed interface {
	run(ctx context.Context) (time.Duration, error)
}

// measure runs ours and theirs n times in turn and returns the medians. What
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
	return pair{median(a), median(b)}, nil
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	if n := len(d); n%2 == 0 {
		return (d[n/2-1] + d[n/2]) / 2
	}
	return d[len(d)/2]
}
