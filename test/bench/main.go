//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

func main() {
	n := flag.Int("n", 60, "pairs of runs for each row")
	out := flag.String("o", "docs/benchmarks.md", "the file to write")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *n, *out); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, n int, out string) (err error) {
	s, done, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if derr := done(); err == nil {
			err = derr
		}
	}()
	t := table{n: n}
	if err := t.fill(ctx, s); err != nil {
		return err
	}
	if err := t.requests(ctx, s); err != nil {
		return err
	}
	text, err := t.page()
	if err != nil {
		return err
	}
	fmt.Print(text)
	return os.WriteFile(out, []byte(text), 0o644) //nolint:gosec // a page of the documentation
}

// row is a line of the table.
type row struct {
	what, against string
	pair          pair
	bar           string
}

// count is a figure that is counted, not timed.
type count struct{ what, value, bar string }

type table struct {
	n      int
	rows   []row
	counts []count
}

// add adds a row and says it: a run takes long, and may not come to its end.
func (t *table) add(r row) {
	t.rows = append(t.rows, r)
	fmt.Fprintf(os.Stderr, "  %.2f, bar %s\n", r.pair.ratio(), r.bar)
}

const execInfo = `KUBERNETES_EXEC_INFO={"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}`

// fill measures all there is.
func (t *table) fill(ctx context.Context, s *stage) error {
	env := s.lab.Env()
	hello := program{path: s.hello, env: env}
	credential := program{path: s.lab.Binary, args: []string{"credential", "--enrollment", s.enrolled}, env: append(env, execInfo)}
	unasked := credential
	unasked.env, unasked.code = env, 1
	get := func(kubeconfig, context string) program {
		return program{path: s.lab.Cluster.Kubectl(), args: []string{"--kubeconfig", kubeconfig, "--context", context, "get", "namespaces"}, env: env}
	}
	for _, r := range []struct {
		what, against, bar string
		ours, theirs       program
	}{
		{"`kubehsm version`", "cgo hello-world", "2.1", program{path: s.lab.Binary, args: []string{"version"}, env: env}, hello},
		{"`kubehsm credential`, not called by kubectl (fails at once)", "cgo hello-world", "2.1", unasked, hello},
		{"`kubehsm credential`, agent warm", "cgo hello-world", "2.1", credential, hello},
		{"`kubectl get namespaces` with the token, agent warm", "the same with a key file", "1.12",
			get(s.lab.Kubeconfig, s.enrolled), get(s.keyFile, "test")},
	} {
		fmt.Fprintln(os.Stderr, r.what)
		p, err := measure(ctx, t.n, r.ours, r.theirs)
		if err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
		t.add(row{r.what, r.against, p, r.bar})
	}
	if err := t.signer(ctx, s); err != nil {
		return err
	}
	if err := t.bridge(ctx, s); err != nil {
		return err
	}
	return t.count(ctx, s, get(s.lab.Kubeconfig, s.enrolled))
}

// count starts a new agent, so that all signatures are those of its commands.
func (t *table) count(ctx context.Context, s *stage, get program) error {
	const commands = 100
	if _, err := lab.Succeeded(s.lab.Kubehsm(ctx, "agent", "stop")); err != nil {
		return fmt.Errorf("stop the agent: %w", err)
	}
	if err := s.lab.Unlock(ctx); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, commands, "commands")
	for range commands {
		if _, err := get.run(ctx); err != nil {
			return err
		}
	}
	st, err := s.lab.Status(ctx)
	if err != nil {
		return err
	}
	t.counts = append(t.counts,
		count{fmt.Sprintf("signatures of the token for %d kubectl commands in a row", commands), fmt.Sprint(st.Signatures), "1"},
		count{"resident memory of the agent after them", fmt.Sprintf("%d MB", st.Memory>>20), "40 MB"})
	return t.burst(ctx, s, get)
}

// burst starts a new agent and many commands at once, and then many more, some at
// a time.
func (t *table) burst(ctx context.Context, s *stage, get program) error {
	if _, err := lab.Succeeded(s.lab.Kubehsm(ctx, "agent", "stop")); err != nil {
		return fmt.Errorf("stop the agent: %w", err)
	}
	if err := s.lab.Unlock(ctx); err != nil {
		return err
	}
	const first, more, atOnce = 20, 160, 8
	failures := func(commands, limit int) int64 {
		var failed atomic.Int64
		var group errgroup.Group
		group.SetLimit(limit)
		for range commands {
			group.Go(func() error {
				if _, err := get.run(ctx); err != nil {
					failed.Add(1)
				}
				return nil
			})
		}
		_ = group.Wait() // it has no error of its own
		return failed.Load()
	}
	failed := failures(first, first)
	st, err := s.lab.Status(ctx)
	if err != nil {
		return err
	}
	t.counts = append(t.counts,
		count{fmt.Sprintf("signatures for %d commands at once, cold", first), fmt.Sprint(st.Signatures), "1"},
		count{fmt.Sprintf("failures of those %d, and of %d more, %d at a time", first, more, atOnce), fmt.Sprint(failed + failures(more, atOnce)), "0"})
	return ctx.Err()
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// page is the table with what must be known to read it.
func (t *table) page() (string, error) {
	machine, err := machine()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks\n\nWritten by `make bench` (`go run ./test/bench`): %s. Whole processes, and requests where the bridge is named; %d pairs in turn, medians.\n"+
		"Machines are noisy: ratios of one run mean something, times of different runs do not.\n\n", machine, t.n)
	b.WriteString("| what | against | ratio | bar | medians |\n|---|---|---|---|---|\n")
	for _, r := range t.rows {
		fmt.Fprintf(&b, "| %s | %s | **%.2f** | %s | %s / %s |\n", r.what, r.against, r.pair.ratio(), r.bar,
			milliseconds(r.pair.ours), milliseconds(r.pair.theirs))
	}
	b.WriteString("\n| what | count | bar |\n|---|---|---|\n")
	for _, c := range t.counts {
		fmt.Fprintf(&b, "| %s | **%s** | %s |\n", c.what, c.value, c.bar)
	}
	return b.String(), nil
}
