//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/term"
)

// tui measures what a person sees: how soon there is a frame, and how soon after a
// key the next.
func (b *bench) tui(ctx context.Context) error {
	var took []time.Duration
	for range min(b.n, 15) {
		d, err := b.firstFrame(ctx)
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	b.found("the terminal UI: from the start of the program to its first frame, median", "30 ms", "%s",
		milliseconds(median(took)))
	found, err := goBench(ctx, "./ui/tui", "^BenchmarkKeyToFrame$", "p99-ms")
	if err != nil {
		return err
	}
	for _, f := range found {
		b.found(fmt.Sprintf("the terminal UI: key to frame, p99, %s (10,000 requests, 5,000 contexts, 1,000 keys)",
			strings.TrimPrefix(f.name, "KeyToFrame/")),
			"4 ms", "%.1f ms", f.value)
	}
	return nil
}

// firstFrame starts the program on a terminal and waits for anything to read there.
func (b *bench) firstFrame(ctx context.Context) (_ time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	begin := time.Now()
	t, err := term.Start(term.Options{Path: b.lab.Binary, Dir: b.lab.Dir, Env: b.lab.Env(), Columns: 120, Rows: 40})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	err = t.Wait(ctx, func(f term.Frame) bool { return strings.TrimSpace(f.Text()) != "" })
	return time.Since(begin), err
}

// figure is what one of Go's benchmarks reported.
type figure struct {
	name  string
	value float64
}

// goBench runs those of a package's benchmarks that match, and returns what they
// reported in unit.
func goBench(ctx context.Context, pkg, match, unit string) ([]figure, error) {
	checkout, err := controlplane.Checkout()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", match, pkg)
	cmd.Dir, cmd.Stderr = checkout, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	var all []figure
	for line := range strings.Lines(string(out)) {
		name, ok := strings.CutPrefix(line, "Benchmark")
		fields := strings.Fields(name)
		for i := 1; ok && i < len(fields); i++ {
			if fields[i] != unit {
				continue
			}
			value, err := strconv.ParseFloat(fields[i-1], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %q: %w", cmd, line, err)
			}
			name = fields[0]
			if i := strings.LastIndexByte(name, '-'); i > 0 { // the number of processors
				name = name[:i]
			}
			all = append(all, figure{name, value})
		}
	}
	slices.SortFunc(all, func(a, b figure) int { return strings.Compare(a.name, b.name) }) // some are run in no order
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: nothing in %s:\n%s", cmd, unit, out)
	}
	return all, nil
}
