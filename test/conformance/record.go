//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// outcome is how a run of a suite went.
type outcome struct {
	Tests []test
	// Again are the groups of kubectl's suite that differ through the token for a
	// reason, run once more without it.
	Again []test
	Took  time.Duration
	// Signatures are the token's, Requests those that the bridge passed on: none of
	// either with a key file.
	Signatures, Requests int
}

// test is a group of the suite.
type test struct {
	Name   string
	Passed bool
	// Assertions are those of kubectl's suite, in their order.
	Assertions []assertion
	// Said is what the test printed.
	Said string
}

// assertion is one that was begun.
type assertion struct {
	// Place is FILE:LINE of the script, Function upstream's name of it.
	Place, Function string
	// Held tells whether it held, or what the script takes instead did.
	Held bool
}

func (a assertion) String() string {
	word := "fails"
	if a.Held {
		word = "holds"
	}
	return fmt.Sprintf("%s %s %s", a.Place, a.Function, word)
}

// outside is the test that what kubectl's suite asserts outside its groups is of.
const outside = "(outside the groups)"

func (o *outcome) find(name string) *test {
	if i := slices.IndexFunc(o.Tests, func(t test) bool { return t.Name == name }); i >= 0 {
		return &o.Tests[i]
	}
	return nil
}

// passed counts tests, and the assertions in all of them that hold.
func (o *outcome) passed() (tests, assertions int) {
	for _, t := range o.Tests {
		if t.Passed {
			tests++
		}
		for _, a := range t.Assertions {
			if a.Held {
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
	o := &outcome{Tests: []test{{Name: outside, Passed: true}}}
	open := 0      // index of the test whose assertions come
	ended := false // the last assertion
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case len(f) == 3 && f[0] == "group" && f[2] == "begin":
			open = len(o.Tests)
			o.Tests = append(o.Tests, test{Name: f[1]})
		case len(f) == 3 && f[0] == "group":
			o.Tests[open].Passed = f[2] == "passed"
			open = 0
		case len(f) == 5 && f[0] == "assert":
			t := &o.Tests[open]
			last := len(t.Assertions) - 1
			switch {
			case f[4] != "begin":
				t.Assertions[last].Held, ended = f[4] == "0", true
			case ended && last >= 0 && !t.Assertions[last].Held:
				// The group went on, so that the script takes this one instead.
				ended = false
			default:
				t.Assertions, ended = append(t.Assertions, assertion{Place: f[2], Function: f[3]}), false
			}
		default:
			return nil, fmt.Errorf("the suite's record: %q", line)
		}
	}
	for _, a := range o.Tests[0].Assertions {
		o.Tests[0].Passed = o.Tests[0].Passed && a.Held
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
			t.Said = said
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
