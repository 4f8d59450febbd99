//go:build linux

// Command bench measures kubehsm against what it is compared with and writes
// docs/benchmarks.md:
//
//	go run ./test/bench [-n PAIRS] [-o FILE] [-only NAMES]
//
// Machines are noisy and shared, so that a time means little by itself. Two
// programs are run in turn, in pairs, and the ratio of their medians is what
// counts. Nothing here is a test: no test fails on time.
//
// It needs SoftHSM2 and the control plane (`make cluster`).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

func main() {
	n := flag.Int("n", 60, "pairs of runs for each row")
	out := flag.String("o", "docs/benchmarks.md", "the file to write, row by row")
	only := flag.String("only", "", "measure only these, separated by commas, and write no file: "+names())
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *n, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// measurement fills one or more lines of the page.
type measurement struct {
	name string
	do   func(*bench, context.Context) error
}

var measurements = []measurement{
	{"start", (*bench).start},
	{"kubectl", (*bench).kubectl},
	{"bridge", (*bench).bridge},
	{"serial", (*bench).serial},
	{"memory", (*bench).memory},
	{"tui", (*bench).tui},
	{"many", (*bench).many},
	{"requests", (*bench).requests},
}

func names() string {
	var all []string
	for _, m := range measurements {
		all = append(all, m.name)
	}
	return strings.Join(all, ", ")
}

// bench is a run.
type bench struct {
	*stage
	page
	n int
}

// run goes on where a measurement fails: the others took their time, too.
func run(ctx context.Context, n int, out, only string) (err error) {
	chosen := measurements
	if only != "" {
		chosen = nil
		for name := range strings.SplitSeq(only, ",") {
			i := slices.IndexFunc(measurements, func(m measurement) bool { return m.name == name })
			if i < 0 {
				return fmt.Errorf("there is no measurement %q; there are %s", name, names())
			}
			chosen = append(chosen, measurements[i])
		}
		out = ""
	}
	s, done, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	b := &bench{stage: s, n: n}
	var failed []string
	for _, m := range chosen {
		begin := time.Now()
		fmt.Fprintf(os.Stderr, "== %s\n", m.name)
		if err := m.do(b, ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			fmt.Fprintf(os.Stderr, "error: %s: %v\n", m.name, err)
			failed = append(failed, m.name)
		}
		fmt.Fprintf(os.Stderr, "   %s took %s\n", m.name, time.Since(begin).Round(time.Second))
		if out == "" {
			continue
		}
		text, err := b.text(n, failed)
		if err != nil {
			return err
		}
		if err := os.WriteFile(out, []byte(text), 0o644); err != nil { //nolint:gosec // a page of the documentation
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("not measured: %s", strings.Join(failed, ", "))
	}
	return nil
}
