package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// test is one of the top level that failed.
type test struct {
	pkg, name string
	// first is the subtest that failed first, or the test itself; where is the line
	// of its last words.
	first, where string
}

func (t test) String() string {
	return fmt.Sprintf("FLAKY: %s in %s (%s)", t.first, t.pkg, t.where)
}

// result is what one go test came to.
type result struct {
	// tests is how many tests of the top level ended.
	tests  int
	failed []test
	// broken: something failed that is not a test, so that some tests may not have
	// run, or the race detector has reported something.
	broken bool
	// race is the package that the race detector reported something in.
	race string
}

// event is a line of go test -json (go doc test2json).
type event struct {
	Action, Package, Test, Output string
}

// running is a package whose tests run.
type running struct {
	// said is what each test that has not ended has said, and its failed subtests.
	said map[string]string
	// own is what the package said itself.
	own []string
	// shown is what its failed tests said.
	shown  string
	failed []test
	// first and where are of tests that have not ended, see [test].
	first, where map[string]string
}

const raceReport = "WARNING: DATA RACE"

var (
	noise = regexp.MustCompile(`^=== (RUN|PAUSE|CONT|NAME) `)
	place = regexp.MustCompile(`^\s+(\S+\.go:\d+): `)
)

// read turns in, from go test -json, into what go test prints without it.
func read(in io.Reader, out io.Writer) (result, error) {
	var r result
	packages := map[string]*running{}
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		} else if err != nil && !errors.Is(err, io.EOF) {
			return r, err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			r.broken = true
			fmt.Fprintf(out, "%s", line)
			continue
		}
		p := packages[e.Package]
		if p == nil {
			p = &running{said: map[string]string{}, first: map[string]string{}, where: map[string]string{}}
			packages[e.Package] = p
		}
		switch {
		case e.Action == "build-output":
			fmt.Fprint(out, e.Output)
		case e.Action == "build-fail":
			r.broken = true
		case e.Action == "output":
			if strings.Contains(e.Output, raceReport) {
				r.race, r.broken = e.Package, true
			}
			p.output(e)
		case e.Test != "":
			r.tests += p.end(e)
		case e.Action == "pass", e.Action == "skip":
			fmt.Fprint(out, p.shown)
			if len(p.own) > 0 {
				fmt.Fprint(out, p.own[len(p.own)-1]) // the line that begins with "ok" or "?"
			}
			delete(packages, e.Package)
		case e.Action == "fail":
			for _, said := range p.said {
				p.shown += said
			}
			fmt.Fprint(out, p.shown, strings.Join(p.own, ""))
			r.failed = append(r.failed, p.failed...)
			r.broken = r.broken || !p.orderly()
			delete(packages, e.Package)
		}
	}
	return r, nil
}

func (p *running) output(e event) {
	if e.Test == "" {
		p.own = append(p.own, e.Output)
		return
	}
	if noise.MatchString(e.Output) {
		return
	}
	if m := place.FindStringSubmatch(e.Output); m != nil {
		p.where[e.Test] = m[1]
	}
	p.said[e.Test] += e.Output
}

// end notes that a test began or ended, and returns how many of the top level did.
func (p *running) end(e event) int {
	if e.Action != "pass" && e.Action != "skip" && e.Action != "fail" {
		p.said[e.Test] += ""
		return 0
	}
	top, _, sub := strings.Cut(e.Test, "/")
	said, failed := p.said[e.Test], e.Action == "fail"
	delete(p.said, e.Test)
	if failed && p.first[top] == "" {
		p.first[top] = e.Test
	}
	if !failed && !strings.Contains(said, raceReport) {
		said = ""
	}
	if sub {
		p.said[top] += said
		return 0
	}
	p.shown += said
	if failed {
		p.failed = append(p.failed, test{pkg: e.Package, name: top, first: p.first[top], where: p.where[p.first[top]]})
	}
	return 1
}

// orderly: all tests of a package that failed have run to their ends, and so has
// the package. Only then does it say FAIL and nothing after it.
func (p *running) orderly() bool {
	n := len(p.own)
	return len(p.failed) > 0 && len(p.said) == 0 &&
		n >= 2 && p.own[n-2] == "FAIL\n" && strings.HasPrefix(p.own[n-1], "FAIL\t")
}
