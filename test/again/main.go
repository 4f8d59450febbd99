// Again runs Go's tests, and runs each that failed once more, alone. If all of
// these pass then, the run passes and names them as flaky: each has a race to
// find, but stops nobody meanwhile.
//
//	go run ./test/again FILE GO-TEST-FLAGS... -- PACKAGES...
//
// The FLAKY lines are printed and added to FILE. Only tests that failed in an
// orderly way get a second run, and at most three. A build that fails, a package
// that panics, exits or times out (its other tests never ran), and a report of
// the race detector, in a child process too, always fail the run.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// most is how many failed tests get a second run: more than that are not flaky.
const most = 3

func main() {
	dashes := slices.Index(os.Args, "--")
	if dashes < 2 || dashes == len(os.Args)-1 {
		fmt.Fprintln(os.Stderr, "usage: again FILE GO-TEST-FLAGS... -- PACKAGES...")
		os.Exit(2)
	}
	// Ctrl-c reaches go test as well, which ends its tests and then this program.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	flaky, err := run(".", os.Args[2:dashes], os.Args[dashes+1:], os.Stdout)
	if len(flaky) > 0 {
		err = errors.Join(err, appendLines(os.Args[1], flaky))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "again:", err)
		os.Exit(1)
	}
}

func appendLines(file string, lines []string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, strings.Join(lines, "\n")+"\n")
	return errors.Join(err, f.Close())
}

// run tests the packages in dir, prints what go test would, and returns a line for
// each test that failed and then passed.
func run(dir string, flags, packages []string, out io.Writer) (flaky []string, err error) {
	begin := time.Now()
	first, err := goTest(dir, slices.Concat(flags, packages), out)
	done := fmt.Sprintf("DONE %d tests, %d failed", first.tests, len(first.failed))
	defer func() { fmt.Fprintf(out, "\n%s in %.1fs\n", done, time.Since(begin).Seconds()) }()
	if err == nil {
		return nil, nil
	}
	if first.broken {
		return nil, fmt.Errorf("%w: not only tests failed, so none ran again", err)
	}
	if len(first.failed) > most {
		return nil, fmt.Errorf("%w: more than %d tests failed, so none ran again", err, most)
	}
	for _, t := range first.failed {
		fmt.Fprintf(out, "\n== again, alone: %s in %s\n", t.name, t.pkg)
		// A result from go's cache would be no second run.
		alone := []string{"-count=1", "-run", "^" + regexp.QuoteMeta(t.name) + "$", t.pkg}
		second, err := goTest(dir, slices.Concat(flags, alone), out)
		if err == nil && second.tests == 0 {
			err = errors.New("it did not run again")
		}
		if err != nil {
			return flaky, fmt.Errorf("%s in %s: %w", t.name, t.pkg, err)
		}
		flaky = append(flaky, t.String())
	}
	done = strings.Join(flaky, "\n") + "\n" + done
	return flaky, nil
}

// goTest runs go test with args. Its error is also that of a passing run in which
// the race detector reported something.
func goTest(dir string, args []string, out io.Writer) (result, error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return result{}, err
	}
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	r, readErr := read(pipe, out)
	if readErr != nil {
		readErr = fmt.Errorf("read what go test says: %w", readErr)
	}
	if err = cmd.Wait(); err != nil {
		err = fmt.Errorf("go test: %w", err)
	}
	if r.race != "" {
		err = errors.Join(err, fmt.Errorf("%s has a data race", r.race))
	}
	return r, errors.Join(err, readErr)
}
