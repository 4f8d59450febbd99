//go:build linux

// Command conformance runs kubectl's own suite with a key file and, side by side
// with it, through the token:
//
//	go run ./test/conformance [GROUP…]
//
// The suite is upstream's (test/cmd of k8s.io/kubernetes, shell scripts), of the
// control plane's version, out of the module cache. What passes with a key file
// must pass through the token, but for what differences.yaml has a reason for; and
// each reason must still be needed. docs/conformance.md has the figures of a whole run.
//
// It needs SoftHSM2 and the control plane (`make cluster`).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// comparison is the suite, run both ways.
type comparison struct {
	key, token *outcome
	reasons    []difference
	// wrong is what [judge] finds.
	wrong []string
}

// summary is the suite's figures in lines, for a terminal.
func (c *comparison) summary() string {
	var b strings.Builder
	for _, w := range []struct {
		name string
		o    *outcome
	}{{keyFile, c.key}, {token, c.token}} {
		groups, assertions := w.o.passed()
		fmt.Fprintf(&b, "by %s: %d of %d passed, %d assertions held, %d requests through the bridge, %d signatures, %s\n",
			w.name, groups, len(w.o.Tests), assertions, w.o.Requests, w.o.Signatures, w.o.Took.Round(time.Second))
	}
	return b.String()
}

// stage is what the suite runs on.
type stage struct {
	dir      string
	upstream *upstream
	kubehsm  string // the program
}

// run runs groups of the suite, all if none is named.
func run(ctx context.Context, groups []string) (err error) {
	s := &stage{}
	if s.dir, err = os.MkdirTemp("", "kubehsm-conf-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	if s.upstream, err = findUpstream(ctx); err != nil {
		return err
	}
	if err := s.upstream.build(ctx); err != nil {
		return err
	}
	if s.kubehsm, err = lab.Build(ctx, s.dir); err != nil {
		return err
	}
	c, err := s.compare(ctx, groups)
	if err != nil {
		return err
	}
	fmt.Fprint(os.Stderr, c.summary())
	if c.wrong != nil {
		return fmt.Errorf("%d groups do not go as they should:\n%s", len(c.wrong), strings.Join(c.wrong, "\n"))
	}
	return nil
}

// compare runs groups with a key file and through the token, at once; all if none is named.
func (s *stage) compare(ctx context.Context, groups []string) (*comparison, error) {
	c := &comparison{}
	var err error
	if c.reasons, err = readDifferences(); err != nil {
		return nil, err
	}
	ways, ctx := errgroup.WithContext(ctx)
	for name, o := range map[string]**outcome{keyFile: &c.key, token: &c.token} {
		ways.Go(func() (err error) {
			if *o, err = s.inWay(ctx, name, groups); err != nil {
				return fmt.Errorf("by %s: %w", name, err)
			}
			return nil
		})
	}
	if err := ways.Wait(); err != nil {
		return nil, err
	}
	c.wrong = judge(c.key, c.token, c.reasons)
	if n := c.token.Signatures; n != 1 {
		c.wrong = append(c.wrong, fmt.Sprintf("the token has signed %d times, not once", n))
	}
	return c, nil
}

// inWay opens a way, and runs groups there.
func (s *stage) inWay(ctx context.Context, name string, groups []string) (_ *outcome, err error) {
	dir, err := os.MkdirTemp(s.dir, "w")
	if err != nil {
		return nil, err
	}
	w, err := openWay(ctx, name, dir, s.kubehsm, kubectlOptions(s.upstream.kubernetes))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(context.WithoutCancel(ctx))) }()
	fmt.Fprintf(os.Stderr, "== %s by %s\n", time.Now().Format(time.TimeOnly), name)
	return s.kubectl(ctx, w, groups)
}

// kubectl runs groups of kubectl's suite, all if none is named: through the token
// also those that differ, once more without the reason, when they must not.
func (s *stage) kubectl(ctx context.Context, w *way, groups []string) (*outcome, error) {
	suite, err := copySuite(filepath.Join(w.dir, "suite"), s.upstream, w)
	if err != nil {
		return nil, err
	}
	o, err := suite.run(ctx, groups...)
	if err != nil {
		return nil, err
	}
	if groups != nil {
		o.Tests = grouped(o.Tests)
	}
	if w.name == keyFile {
		return o, nil
	}
	return o, s.withoutReasons(ctx, w, o)
}

// withoutReasons runs those groups of o again that there is a reason for.
func (s *stage) withoutReasons(ctx context.Context, w *way, o *outcome) error {
	reasons, err := readDifferences()
	if err != nil {
		return err
	}
	var edits []edit
	var groups []string
	for _, d := range reasons {
		if o.find(d.Test) != nil && len(d.Without) > 0 {
			edits, groups = append(edits, d.Without...), append(groups, d.Test)
		}
	}
	if groups == nil {
		return nil
	}
	suite, err := copySuite(filepath.Join(w.dir, "again"), s.upstream, w, edits...)
	if err != nil {
		return err
	}
	again, err := suite.run(ctx, groups...)
	if err != nil {
		return err
	}
	o.Signatures, o.Requests = again.Signatures, again.Requests // counted since the way was opened
	o.Again = grouped(again.Tests)
	return nil
}

// grouped are tests without what is asserted outside the groups.
func grouped(tests []test) []test {
	return slices.DeleteFunc(tests, func(t test) bool { return t.Name == outside })
}
