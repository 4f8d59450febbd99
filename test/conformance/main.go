//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

func main() {
	out := flag.String("o", "docs/conformance.md", "the file to write")
	only := flag.String("only", "",
		"run only this suite, kubectl or e2e, and write no file; arguments are the tests to run")
	atOnce := flag.Bool("at-once", false, "run both ways side by side: sooner done, but the times mean little")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *out, *only, *atOnce, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// comparison is a suite that was run both ways.
type comparison struct {
	name       string
	key, token *outcome
	reasons    []difference
	// wrong is what [judge] finds.
	wrong []string
}

// suites are what there is to run. tests are those to run, none for all.
var suites = []struct {
	name string
	run  func(s *stage, ctx context.Context, tests []string) (*comparison, error)
}{
	{"kubectl", (*stage).kubectl},
	{"e2e", (*stage).e2e},
}

func run(ctx context.Context, out, only string, atOnce bool, tests []string) (err error) {
	dir, err := os.MkdirTemp("", "kubehsm-conf-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &stage{dir: dir, atOnce: atOnce}
	if s.upstream, err = findUpstream(ctx); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "== building the suites' programs: minutes the first time")
	if err := s.upstream.build(ctx); err != nil {
		return err
	}
	if s.kubehsm, err = lab.Build(ctx, dir); err != nil {
		return err
	}
	var all []*comparison
	var wrong []string
	for _, suite := range suites {
		if only != "" && only != suite.name {
			continue
		}
		c, err := suite.run(s, ctx, tests)
		if err != nil {
			return fmt.Errorf("%s: %w", suite.name, err)
		}
		all = append(all, c)
		fmt.Fprint(os.Stderr, c.summary())
		if c.token.signatures != 1 {
			c.wrong = append(c.wrong, fmt.Sprintf("%s: the token has signed %d times, not once", c.name, c.token.signatures))
		}
		wrong = append(wrong, c.wrong...)
	}
	if only == "" {
		text := page(all, s.upstream.version, atOnce)
		if err := os.WriteFile(out, []byte(text), 0o644); err != nil { //nolint:gosec // a page of the documentation
			return err
		}
	}
	if wrong != nil {
		return fmt.Errorf("%d tests do not go as they should:\n%s", len(wrong), strings.Join(wrong, "\n"))
	}
	return nil
}

// stage is what both suites run on.
type stage struct {
	dir      string
	upstream *upstream
	kubehsm  string // the program
	atOnce   bool   // both ways run side by side
}

// bothWays runs a suite with a key file and through the token. suite is given an
// open way; name is the suite's.
func (s *stage) bothWays(ctx context.Context, name string, o controlplane.Options,
	suite func(ctx context.Context, w *way) (*outcome, error)) (*comparison, error) {
	c := &comparison{name: name}
	var err error
	if c.reasons, err = readDifferences(name); err != nil {
		return nil, err
	}
	ways, ctx := errgroup.WithContext(ctx)
	if !s.atOnce {
		ways.SetLimit(1)
	}
	for _, w := range []struct {
		name string
		to   **outcome
	}{{keyFile, &c.key}, {token, &c.token}} {
		ways.Go(func() (err error) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			fmt.Fprintf(os.Stderr, "== %s, by %s\n", name, w.name)
			dir, err := os.MkdirTemp(s.dir, "w")
			if err != nil {
				return err
			}
			if *w.to, err = inWay(ctx, w.name, dir, s.kubehsm, o, suite); err != nil {
				return fmt.Errorf("by %s: %w", w.name, err)
			}
			return nil
		})
	}
	if err := ways.Wait(); err != nil {
		return nil, err
	}
	c.wrong = judge(c.key, c.token, c.reasons)
	return c, nil
}

// inWay opens a way for what do does.
func inWay(ctx context.Context, name, dir, kubehsm string, o controlplane.Options,
	do func(ctx context.Context, w *way) (*outcome, error)) (_ *outcome, err error) {
	w, err := openWay(ctx, name, dir, kubehsm, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(context.WithoutCancel(ctx))) }()
	return do(ctx, w)
}

// kubectl runs kubectl's suite: through the token also the groups that differ,
// once more without the reason, when they must not.
func (s *stage) kubectl(ctx context.Context, groups []string) (*comparison, error) {
	var again *outcome
	c, err := s.bothWays(ctx, "kubectl", kubectlOptions(s.upstream.kubernetes), func(ctx context.Context,
		w *way) (*outcome, error) {
		suite, err := copySuite(filepath.Join(w.dir, "suite"), s.upstream, w)
		if err != nil {
			return nil, err
		}
		o, err := suite.run(ctx, groups...)
		if err != nil || w.name == keyFile {
			return o, err
		}
		again, err = s.withoutReasons(ctx, w, o)
		return o, err
	})
	if err != nil {
		return nil, err
	}
	for _, t := range again.tests {
		if k := c.key.find(t.name); t.name != outside && k != nil {
			if differ := unlike(*k, t); differ != "" {
				c.wrong = append(c.wrong, fmt.Sprintf("%s: even without the reason of differences.yaml: %s\n%s", t.name,
					differ, end(t.said)))
			}
		}
	}
	c.token.signatures = again.signatures
	return c, nil
}

// withoutReasons runs those groups of o again that there is a reason for.
func (s *stage) withoutReasons(ctx context.Context, w *way, o *outcome) (*outcome, error) {
	reasons, err := readDifferences("kubectl")
	if err != nil {
		return nil, err
	}
	var edits []edit
	var groups []string
	for _, d := range reasons {
		if o.find(d.Test) != nil && len(d.Without) > 0 {
			edits, groups = append(edits, d.Without...), append(groups, d.Test)
		}
	}
	if groups == nil {
		return o, nil
	}
	suite, err := copySuite(filepath.Join(w.dir, "again"), s.upstream, w, edits...)
	if err != nil {
		return nil, err
	}
	return suite.run(ctx, groups...)
}

// e2e runs the end-to-end tests.
func (s *stage) e2e(ctx context.Context, tests []string) (*comparison, error) {
	if len(tests) == 0 {
		tests = e2eTests()
	}
	return s.bothWays(ctx, "e2e", controlplane.Options{AllControllers: true}, func(ctx context.Context,
		w *way) (*outcome, error) {
		return runE2E(ctx, s.upstream.e2e, w, tests)
	})
}
