//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// outcome is how a run of a suite went.
type outcome struct {
	tests []test
	took  time.Duration
	// signatures are the token's, requests those that the bridge passed on: none of
	// either with a key file.
	signatures, requests int
}

// test is a group of kubectl's suite, or an end-to-end test.
type test struct {
	name   string
	passed bool
	// assertions are those of kubectl's suite, in their order.
	assertions []assertion
	// said is what the test printed.
	said string
	took time.Duration
}

// assertion is one that was begun.
type assertion struct {
	// place is FILE:LINE of the script, function upstream's name of it.
	place, function string
	// held tells whether it held, or what the script takes instead did.
	held bool
}

func (a assertion) String() string {
	word := "fails"
	if a.held {
		word = "holds"
	}
	return fmt.Sprintf("%s %s %s", a.place, a.function, word)
}

// outside is the test that what kubectl's suite asserts outside its groups is of.
const outside = "(outside the groups)"

func (o *outcome) find(name string) *test {
	if i := slices.IndexFunc(o.tests, func(t test) bool { return t.name == name }); i >= 0 {
		return &o.tests[i]
	}
	return nil
}

// conformance counts the conformance tests that passed.
func (o *outcome) conformance() (n int) {
	for _, t := range o.tests {
		if t.passed && strings.Contains(t.name, "[Conformance]") {
			n++
		}
	}
	return n
}

// passed counts tests, and the assertions in all of them that hold.
func (o *outcome) passed() (tests, assertions int) {
	for _, t := range o.tests {
		if t.passed {
			tests++
		}
		for _, a := range t.assertions {
			if a.held {
				assertions++
			}
		}
	}
	return tests, assertions
}

// readRecord reads what kubectl.sh wrote down, and log, what the suite printed.
func readRecord(record, log string) (*outcome, error) {
	b, err := os.ReadFile(record)
	if err != nil {
		return nil, fmt.Errorf("the suite did not begin: %w\n%s", err, tail(log))
	}
	o := &outcome{tests: []test{{name: outside, passed: true}}}
	open := 0                  // index of the test whose assertions come
	began := map[int]float64{} // key: index
	ended := false             // the last assertion
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case len(f) == 4 && f[0] == "group":
			at, err := strconv.ParseFloat(f[3], 64)
			if err != nil {
				return nil, fmt.Errorf("the suite's record: %q: %w", line, err)
			}
			if f[2] == "begin" {
				open = len(o.tests)
				o.tests, began[open] = append(o.tests, test{name: f[1]}), at
				continue
			}
			t := &o.tests[open]
			t.passed, t.took = f[2] == "passed", time.Duration((at-began[open])*float64(time.Second))
			open = 0
		case len(f) == 5 && f[0] == "assert":
			t := &o.tests[open]
			last := len(t.assertions) - 1
			switch {
			case f[4] != "begin":
				t.assertions[last].held, ended = f[4] == "0", true
			case ended && last >= 0 && !t.assertions[last].held:
				// The group went on, so that the script takes this one instead.
				ended = false
			default:
				t.assertions, ended = append(t.assertions, assertion{place: f[2], function: f[3]}), false
			}
		default:
			return nil, fmt.Errorf("the suite's record: %q", line)
		}
	}
	for _, a := range o.tests[0].assertions {
		o.tests[0].passed = o.tests[0].passed && a.held
	}
	return o, o.readLog(log)
}

// readLog gives each group what it printed.
func (o *outcome) readLog(log string) error {
	b, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(string(b), "\nRecording: ") {
		name, said, _ := strings.Cut(part, "\n")
		if t := o.find(name); t != nil {
			t.said = said
		}
	}
	if !strings.Contains(string(b), "Recording: ") {
		return fmt.Errorf("the suite ended before its first group:\n%s", tail(log))
	}
	return nil
}

// tail is the end of a file.
func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-3000):])
}
