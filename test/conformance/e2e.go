//go:build linux

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// e2eList names the end-to-end tests that need no node, one a line.
//
//go:embed e2e.txt
var e2eList string

// e2eTests are the names in e2e.txt.
func e2eTests() []string {
	var names []string
	for line := range strings.Lines(e2eList) {
		if name := strings.TrimSpace(line); name != "" && !strings.HasPrefix(name, "#") {
			names = append(names, name)
		}
	}
	return names
}

// ginkgoReport is what is read of Ginkgo's own report.
type ginkgoReport struct {
	SpecReports []struct {
		ContainerHierarchyTexts []string
		LeafNodeText            string
		LeafNodeType            string
		State                   string
		RunTime                 time.Duration
		Failure                 struct{ Message string }
	}
}

// runE2E runs end-to-end tests the way w, and returns how they went. A test that
// fails is no error.
func runE2E(ctx context.Context, program string, w *way, names []string) (*outcome, error) {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = regexp.QuoteMeta(n)
	}
	report := filepath.Join(w.dir, "report.json")
	log, err := os.Create(filepath.Join(w.dir, "log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "--provider=skeleton", "--kubeconfig="+w.kubeconfig,
		"--kubectl-path="+w.cluster.Kubectl(), fmt.Sprintf("--num-nodes=%d", w.nodes),
		fmt.Sprintf("--allowed-not-ready-nodes=%d", min(w.nodes, 1)-1), "--disable-log-dump", // -1: none is waited for
		"--dump-logs-on-failure=false", "--e2e-output-dir="+w.dir, "--ginkgo.seed=1", "--ginkgo.no-color",
		"--ginkgo.timeout=3h", "--ginkgo.json-report="+report, "--ginkgo.focus= ("+strings.Join(quoted, "|")+")$")
	cmd.Dir = w.dir
	cmd.Env = append(w.env, "PATH="+os.Getenv("PATH"), "HOME="+w.dir, "TMPDIR="+w.dir, "LANG=C.UTF-8")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal for prompts
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	begin := time.Now()
	err = errors.Join(cmd.Run(), log.Close())
	o := &outcome{Took: time.Since(begin)}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	b, err := os.ReadFile(report)
	if err != nil {
		return nil, fmt.Errorf("the end-to-end tests did not come to their end: %w\n%s", err, tail(log.Name()))
	}
	if err := o.readReport(b); err != nil {
		return nil, err
	}
	if err := o.hasAll(names); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, tail(log.Name()))
	}
	return o, w.count(ctx, o)
}

// readReport takes the tests that were run from Ginkgo's report.
func (o *outcome) readReport(b []byte) error {
	var suites []ginkgoReport
	if err := json.Unmarshal(b, &suites); err != nil {
		return fmt.Errorf("the report of the end-to-end tests: %w", err)
	}
	for _, suite := range suites {
		for _, s := range suite.SpecReports {
			if s.LeafNodeType != "It" || s.State == "skipped" && s.RunTime == 0 {
				continue
			}
			o.Tests = append(o.Tests, test{Name: strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " "),
				Passed: s.State == "passed", Said: s.State + ": " + s.Failure.Message, Took: s.RunTime})
		}
	}
	slices.SortFunc(o.Tests, func(a, b test) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// hasAll tells whether all that was asked for was run.
func (o *outcome) hasAll(names []string) error {
	var missing []string
	for _, n := range names {
		if o.find(n) == nil {
			missing = append(missing, n)
		}
	}
	if missing != nil {
		return fmt.Errorf("%d end-to-end tests of e2e.txt were not run, such as %s", len(missing), missing[0])
	}
	return nil
}
