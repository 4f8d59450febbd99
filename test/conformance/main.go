//go:build linux

// Command conformance runs the suites of Kubernetes itself with a key file and,
// side by side with it, through the token, and writes docs/conformance.md:
//
//	go run ./test/conformance [-o FILE] [-only SUITE [TEST…]]
//
// The suites are kubectl's own (test/cmd of k8s.io/kubernetes, shell scripts) and
// the end-to-end tests (test/e2e), as far as no container has to run: nodes are
// simulated, by kwok. Both are upstream's, of the control plane's version, out of
// the module cache. What passes with a key file must pass through the token, but
// for what differences.yaml has a reason for; and each reason must still be needed.
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
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

func main() {
	out := flag.String("o", "docs/conformance.md", "the `file` to write")
	only := flag.String("only", "", "run only this `suite`, kubectl or e2e, of it the tests that arguments name; write nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *out, *only, flag.Args()); err != nil {
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

// suites are what there is to run.
var suites = []suite{
	{name: "kubectl", options: func(u *upstream) controlplane.Options { return kubectlOptions(u.kubernetes) },
		run: (*stage).kubectl},
	{name: "e2e", options: func(*upstream) controlplane.Options { return controlplane.Options{Whole: true} },
		tests: e2eTests(), nodes: true, run: (*stage).e2e},
}

// suite is one of Kubernetes' suites.
type suite struct {
	name    string
	options func(u *upstream) controlplane.Options
	// tests are the names of its tests; nil for all that it has.
	tests []string
	// nodes says that there are simulated nodes.
	nodes bool
	// run runs tests, nil for all.
	run func(s *stage, ctx context.Context, w *way, tests []string) (*outcome, error)
}

// stage is what the suites run on.
type stage struct {
	dir      string
	upstream *upstream
	kubehsm  string // the program
}

// run runs the suites and writes the page to out, or runs one suite, or tests of it.
func run(ctx context.Context, out, only string, tests []string) (err error) {
	s := &stage{}
	if s.dir, err = os.MkdirTemp("", "kubehsm-conf-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	if s.upstream, err = findUpstream(ctx); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "== building the suites' programs: minutes the first time")
	if err := s.upstream.build(ctx); err != nil {
		return err
	}
	if s.kubehsm, err = lab.Build(ctx, s.dir); err != nil {
		return err
	}
	var all []*comparison
	var wrong []string
	for _, suite := range suites {
		if only != "" && only != suite.name {
			continue
		}
		if len(tests) > 0 {
			suite.tests = tests
		}
		c, err := s.compare(ctx, suite)
		if err != nil {
			return fmt.Errorf("%s: %w", suite.name, err)
		}
		all = append(all, c)
		fmt.Fprint(os.Stderr, c.summary())
		wrong = append(wrong, c.wrong...)
	}
	if len(all) == len(suites) {
		text := page(all, s.upstream.version)
		if err := os.WriteFile(out, []byte(text), 0o644); err != nil { //nolint:gosec // a page of the documentation
			return err
		}
		fmt.Fprintln(os.Stderr, "== written:", out)
	}
	if wrong != nil {
		return fmt.Errorf("%d tests do not go as they should:\n%s", len(wrong), strings.Join(wrong, "\n"))
	}
	return nil
}

// compare runs a suite with a key file and through the token, at once.
func (s *stage) compare(ctx context.Context, u suite) (*comparison, error) {
	c := &comparison{name: u.name}
	var err error
	if c.reasons, err = readDifferences(u.name); err != nil {
		return nil, err
	}
	ways, ctx := errgroup.WithContext(ctx)
	for name, o := range map[string]**outcome{keyFile: &c.key, token: &c.token} {
		ways.Go(func() (err error) {
			if *o, err = s.inWay(ctx, u, name); err != nil {
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
		c.wrong = append(c.wrong, fmt.Sprintf("%s: the token has signed %d times, not once", c.name, n))
	}
	return c, nil
}

// inWay opens a way, and runs a suite there.
func (s *stage) inWay(ctx context.Context, u suite, name string) (_ *outcome, err error) {
	dir, err := os.MkdirTemp(s.dir, "w")
	if err != nil {
		return nil, err
	}
	w, err := openWay(ctx, name, dir, s.kubehsm, u.options(s.upstream))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(context.WithoutCancel(ctx))) }()
	if u.nodes {
		if err := w.simulateNodes(ctx, s.upstream); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(os.Stderr, "== %s %s, by %s\n", time.Now().Format(time.TimeOnly), u.name, name)
	return u.run(s, ctx, w, u.tests)
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
	reasons, err := readDifferences("kubectl")
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

// e2e runs end-to-end tests.
func (s *stage) e2e(ctx context.Context, w *way, tests []string) (*outcome, error) {
	return runE2E(ctx, s.upstream.e2e, w, tests)
}
