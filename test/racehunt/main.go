//go:build linux

// Racehunt runs tests while some statements wait, to find those that rely on
// something else being slower.
//
//	go run ./test/racehunt [-seed N] [-runs N] [-share PERCENT] [-flags 'GO TEST FLAGS'] PACKAGES...
//
// All source of the module, tests included, gets a call before each statement
// (go build -overlay: nothing in the tree changes). A seed picks the places that
// wait, 3 to 300 ms each of the first two times that a process reaches them; the
// programs that tests build and start do the same. The same seed picks the same
// places again, until the source changes.
package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/test/racehunt/pause"
)

//go:embed pause/pause.go
var pauseSource string

// untouched are the packages whose tests measure time, read the source or are the
// hunt's own.
var untouched = []string{"test/again", "test/bench", "test/layout", "test/racehunt"}

func main() {
	h := hunt{dir: ".", scratch: filepath.Join(".cache", "racehunt"), out: os.Stdout}
	flag.Uint64Var(&h.seed, "seed", rand.Uint64N(100000), "the first run's `number`; the next ones count on")
	flag.IntVar(&h.runs, "runs", 10, "how many seeds are tried")
	flag.Float64Var(&h.share, "share", 0, "how many `percent` of the places wait (default: the seed picks 1.5 to 7)")
	flag.Uint64Var(&h.longest, "longest", 300, "the longest wait, in `milliseconds`")
	flags := flag.String("flags", "", "`flags` for go test, such as -race or -run")
	flag.Parse()
	h.flags, h.packages = strings.Fields(*flags), flag.Args()
	if len(h.packages) == 0 {
		flag.Usage()
		os.Exit(2)
	}
	found, err := h.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "racehunt:", err)
	}
	if err != nil || found > 0 {
		os.Exit(1)
	}
}

type hunt struct {
	// dir is the module's folder; what the hunt writes is in scratch.
	dir, scratch    string
	seed, longest   uint64
	runs            int
	share           float64
	flags, packages []string
	out             io.Writer
}

// run returns under how many seeds a test failed.
func (h *hunt) run() (int, error) {
	scratch, err := filepath.Abs(h.scratch)
	if err != nil {
		return 0, err
	}
	h.scratch = scratch
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return 0, err
	}
	plan := filepath.Join(scratch, "plan")
	if err := h.overlay(plan); err != nil {
		return 0, err
	}
	defer os.Remove(plan)
	found := 0
	for seed := h.seed; seed < h.seed+uint64(h.runs); seed++ {
		share := uint64(h.share * 100)
		if share == 0 {
			share = 150 + seed*37%551
		}
		p := pause.Plan{Seed: seed, Share: share, Times: 2, Longest: h.longest, Trace: h.file(seed, "waits")}
		err := errors.Join(os.WriteFile(plan, []byte(p.String()), 0o644), os.WriteFile(p.Trace, nil, 0o666))
		if err != nil {
			return found, err
		}
		failed, err := h.test(seed)
		if err != nil {
			return found, err
		}
		fmt.Fprintf(h.out, "seed %d, %d.%02d %% of the places: ", seed, share/100, share%100)
		if len(failed) == 0 {
			fmt.Fprintln(h.out, "ok")
			continue
		}
		found++
		fmt.Fprintf(h.out, "%s\n  output: %s\n  waits:  %s\n  again:  %s\n",
			strings.Join(failed, ", "), h.file(seed, "log"), p.Trace, h.again(seed))
	}
	return found, nil
}

func (h *hunt) file(seed uint64, kind string) string {
	return filepath.Join(h.scratch, fmt.Sprintf("%d.%s", seed, kind))
}

// again is the command that repeats a run.
func (h *hunt) again(seed uint64) string {
	command := fmt.Sprintf("make race-hunt SEED=%d RUNS=1 PKG='%s'", seed, strings.Join(h.packages, " "))
	if len(h.flags) > 0 {
		command += fmt.Sprintf(" FLAGS='%s'", strings.Join(h.flags, " "))
	}
	return command
}

// failure is a line of go test that names a failed test or package.
var failure = regexp.MustCompile(`(?m)^--- FAIL: (\S+)|^FAIL\t(\S+)|^(panic: test timed out.*)|^(WARNING: DATA RACE)`)

// test returns what failed under the seed.
func (h *hunt) test(seed uint64) ([]string, error) {
	cmd := exec.Command("go", slices.Concat([]string{"test", "-vet=off", "-count=1"}, h.flags, h.packages)...)
	cmd.Dir = h.dir
	// By the environment, so that go builds of tests do the same.
	overlay := "-overlay=" + filepath.Join(h.scratch, "overlay.json")
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" "+overlay))
	log, testErr := cmd.CombinedOutput()
	if err := os.WriteFile(h.file(seed, "log"), log, 0o644); err != nil {
		return nil, err
	}
	var failed []string
	for _, m := range failure.FindAllStringSubmatch(string(log), -1) {
		failed = append(failed, strings.Join(m[1:], ""))
	}
	slices.Sort(failed)
	failed = slices.Compact(failed)
	switch {
	case testErr == nil:
		return nil, nil
	case len(failed) == 0, bytes.Contains(log, []byte("[build failed]")):
		return nil, fmt.Errorf("go test: %w\n%s", testErr, log)
	}
	return failed, nil
}

// overlay writes the rewritten source and the list that go build -overlay wants.
func (h *hunt) overlay(plan string) error {
	list := exec.Command("go", "list", "-json=Dir,ImportPath,GoFiles,TestGoFiles,XTestGoFiles,Module", "./...")
	list.Dir, list.Stderr = h.dir, os.Stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	replace := map[string]string{}
	put := func(file, text string) error {
		copied := filepath.Join(h.scratch, fmt.Sprintf("%04d_%s", len(replace), filepath.Base(file)))
		replace[file] = copied
		// A file that stays as it is need not be built again.
		if was, err := os.ReadFile(copied); err == nil && string(was) == text {
			return nil
		}
		return os.WriteFile(copied, []byte(text), 0o644)
	}
	for dec := json.NewDecoder(bufio.NewReader(bytes.NewReader(out))); ; {
		var p struct {
			Dir, ImportPath                    string
			GoFiles, TestGoFiles, XTestGoFiles []string
			Module                             struct{ Path, Dir string }
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		own := strings.TrimPrefix(p.ImportPath, p.Module.Path+"/")
		if slices.ContainsFunc(untouched, func(u string) bool { return own == u || strings.HasPrefix(own, u+"/") }) {
			continue
		}
		const where = "test/racehunt/pause"
		if len(replace) == 0 {
			text := strings.Replace(pauseSource, `planFile = ""`, fmt.Sprintf("planFile = %q", plan), 1)
			if err := put(filepath.Join(p.Module.Dir, where, "pause.go"), text); err != nil {
				return err
			}
		}
		for _, f := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			path := filepath.Join(p.Dir, f)
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text, err := rewrite(own+"/"+f, src, p.Module.Path+"/"+where)
			if err != nil {
				return err
			}
			if text == nil {
				continue
			}
			if err := put(path, string(text)); err != nil {
				return err
			}
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(h.scratch, "overlay.json"), text, 0o644)
}
