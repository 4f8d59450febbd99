//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
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
	results := flag.String("results", ".cache/conformance/results", "the `folder` to keep results in until all are there")
	only := flag.String("only", "",
		"run only this `suite`, kubectl or e2e; arguments are the tests to run, whose results are not kept")
	by := flag.String("by", "", "run only by this `way`, key-file or token, and compare when the other has results, too")
	atOnce := flag.Bool("at-once", false, "run both ways side by side: sooner done, but the times mean little")
	busy := flag.Bool("busy", false, "say on the page that other work kept the machine busy meanwhile")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &stage{results: *results, by: *by, atOnce: *atOnce, busy: *busy, tests: flag.Args()}
	if len(s.tests) > 0 && (*only == "" || *by != "") {
		fmt.Fprintln(os.Stderr, "error: tests are named with -only, and without -by")
		os.Exit(2)
	}
	if err := s.run(ctx, *out, *only); err != nil {
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
	// A part has no more than some minutes to lose.
	{name: "e2e", options: func(*upstream) controlplane.Options { return controlplane.Options{Whole: true} },
		tests: e2eTests(), part: 30, nodes: true, run: (*stage).e2e},
}

// suite is one of Kubernetes' suites.
type suite struct {
	name    string
	options func(u *upstream) controlplane.Options
	// tests are the names of its tests; nil for all that it has.
	tests []string
	// part is how many tests are run at once; 0 for all.
	part int
	// nodes tells whether there are simulated nodes.
	nodes bool
	// run runs tests, nil for all.
	run func(s *stage, ctx context.Context, w *way, tests []string) (*outcome, error)
}

// stage is what the suites run on.
type stage struct {
	dir      string
	upstream *upstream
	kubehsm  string // the program
	results  string // folder of results that are kept; "" to keep none
	by       string // the way to run, as in a file's name; "" for both
	atOnce   bool   // the two ways run side by side
	busy     bool   // other work is done on the machine
	tests    []string
}

// run runs the suites, or the one that only names, and writes the page to out once
// all have results.
func (s *stage) run(ctx context.Context, out, only string) (err error) {
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
	if len(s.tests) > 0 {
		s.results = ""
	}
	var all []*comparison
	var wrong []string
	for _, suite := range suites {
		c, err := s.compare(ctx, suite, only == "" || only == suite.name)
		if err != nil {
			return fmt.Errorf("%s: %w", suite.name, err)
		}
		if c == nil {
			continue
		}
		all = append(all, c)
		fmt.Fprint(os.Stderr, c.summary())
		wrong = append(wrong, c.wrong...)
	}
	if len(all) == len(suites) {
		text := page(all, s.upstream.version, s.busy)
		if err := os.WriteFile(out, []byte(text), 0o644); err != nil { //nolint:gosec // a page of the documentation
			return err
		}
		fmt.Fprintln(os.Stderr, "== written:", out)
		if wrong == nil {
			return os.RemoveAll(s.results)
		}
	}
	if wrong != nil {
		return fmt.Errorf("%d tests do not go as they should; the next run repeats them:\n%s", len(wrong),
			strings.Join(wrong, "\n"))
	}
	return nil
}

// compare runs what has no result yet of a suite, with a key file and through the
// token, and compares. It returns nil if it may not run what is needed: without may
// that is nothing.
func (s *stage) compare(ctx context.Context, u suite, may bool) (*comparison, error) {
	c := &comparison{name: u.name}
	var err error
	if c.reasons, err = readDifferences(u.name); err != nil {
		return nil, err
	}
	names := u.tests
	if len(s.tests) > 0 {
		names = s.tests
	}
	ways, ctx := errgroup.WithContext(ctx)
	if !s.atOnce {
		ways.SetLimit(1)
	}
	var both [2]*kept
	waits := false
	for i, name := range []string{keyFile, token} {
		if both[i], err = s.openKept(u.name, name); err != nil {
			return nil, err
		}
		parts := both[i].left(names, u.part)
		if len(parts) == 0 {
			continue
		}
		if !may || s.by != "" && s.by != fileName(name) {
			waits = true
			continue
		}
		ways.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := s.inWay(ctx, u, name, both[i], parts); err != nil {
				return fmt.Errorf("by %s: %w", name, err)
			}
			return nil
		})
	}
	if err := ways.Wait(); err != nil || waits {
		return nil, err
	}
	c.key, c.token = both[0].Outcome.only(names), both[1].Outcome.only(names)
	return c, s.judge(c, both[:])
}

// judge compares the outcomes, and has the next run repeat what does not go as it
// should.
func (s *stage) judge(c *comparison, both []*kept) error {
	wrong := judge(c.key, c.token, c.reasons)
	wrong = append(wrong, judgeAgain(c.key, c.token.Again)...)
	names := map[string]bool{}
	for _, w := range wrong {
		c.wrong = append(c.wrong, w.String())
		names[w.test] = true
	}
	for _, o := range c.token.Openings {
		if o.Signatures != 1 {
			c.wrong = append(c.wrong, fmt.Sprintf("%s: the token has signed %d times, not once", c.name, o.Signatures))
		}
	}
	for _, k := range both {
		k.Repeat = slices.Sorted(maps.Keys(names))
		if names[outside] { // tests outside every group cannot be repeated
			k.Outcome, k.Repeat = outcome{}, nil
		}
		if err := k.write(); err != nil {
			return err
		}
	}
	return nil
}

// inWay opens a way, and runs parts of a suite's tests there.
func (s *stage) inWay(ctx context.Context, u suite, name string, k *kept, parts [][]string) (err error) {
	dir, err := os.MkdirTemp(s.dir, "w")
	if err != nil {
		return err
	}
	w, err := openWay(ctx, name, dir, s.kubehsm, u.options(s.upstream))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close(context.WithoutCancel(ctx))) }()
	if u.nodes {
		if err := w.simulateNodes(ctx, s.upstream); err != nil {
			return err
		}
	}
	k.Outcome.AtOnce = k.Outcome.AtOnce || s.atOnce
	for i, part := range parts {
		fmt.Fprintf(os.Stderr, "== %s %s, by %s: part %d of %d\n", time.Now().Format(time.TimeOnly), u.name, name, i+1,
			len(parts))
		o, err := u.run(s, ctx, w, part)
		if err != nil {
			return err
		}
		if err := k.add(o, i == 0); err != nil {
			return err
		}
	}
	return nil
}

// kubectl runs groups of kubectl's suite, all if none is named: through the token
// also those that differ, once more without the reason, when they must not.
func (s *stage) kubectl(ctx context.Context, w *way, groups []string) (*outcome, error) {
	suite, err := copySuite(filepath.Join(w.dir, "suite"), s.upstream, w)
	if err != nil {
		return nil, err
	}
	o, err := suite.run(ctx, groups...)
	if err != nil || w.name == keyFile {
		return o, err
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
	o.Openings = again.Openings // counted since the way was opened
	o.Again = slices.DeleteFunc(again.Tests, func(t test) bool { return t.Name == outside })
	return nil
}

// e2e runs end-to-end tests.
func (s *stage) e2e(ctx context.Context, w *way, tests []string) (*outcome, error) {
	return runE2E(ctx, s.upstream.e2e, w, tests)
}
