//go:build linux && cgo

package adversary

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

var chosen = flag.String("defect", "", "try the defects of these `names` or patterns (path.Match), with commas between them")

// few are tried in every run.
var few = []string{"client-by-its-word", "connection-of-anybody"}

// defect is a mistake in the source, as a file in the folder defects has it: a sentence
// that says what comes back, the attacks that catch it, and then for each place the
// source file's name ("--- FILE"), its lines ("-…") and those that take their place
// ("+…"). There are no numbers of lines: the lines must be in the file once.
type defect struct {
	name, what string
	caught     []string
	sources    map[string]string // changed sources, by their path in the checkout
}

// readDefects applies every defect to the sources, each by itself.
func readDefects(root string) (all []defect, err error) {
	files, err := filepath.Glob(filepath.Join("defects", "*.patch"))
	if err == nil && len(files) == 0 {
		err = errors.New("no defects")
	}
	for _, file := range files {
		d, derr := readDefect(root, file)
		if derr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", file, derr))
		}
		all = append(all, d)
	}
	return all, err
}

func readDefect(root, file string) (defect, error) {
	d := defect{name: strings.TrimSuffix(filepath.Base(file), ".patch"), sources: map[string]string{}}
	b, err := os.ReadFile(file)
	if err != nil {
		return d, err
	}
	head, changes, ok := strings.Cut(string(b), "\n--- ")
	what, caught, told := strings.Cut(head, "\nCaught by: ")
	if !ok || !told {
		return d, errors.New("it does not say what comes back, what catches it, and where")
	}
	d.what, d.caught = strings.TrimSpace(what), strings.Split(strings.TrimSpace(caught), ", ")
	for _, name := range d.caught {
		if !slices.ContainsFunc(attacks, func(a attack) bool { return a.name == name }) {
			return d, fmt.Errorf("there is no attack %q", name)
		}
	}
	for change := range strings.SplitSeq(changes, "\n--- ") {
		if err := d.apply(root, change); err != nil {
			return d, err
		}
	}
	return d, nil
}

// apply makes the changes to one file.
func (d defect) apply(root, change string) error {
	file, lines, _ := strings.Cut(change, "\n")
	b, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return err
	}
	source := string(b)
	var before, after []string
	flush := func() error {
		if len(before) == 0 {
			return nil
		}
		from, to := "\n"+strings.Join(before, "\n")+"\n", "\n"
		if len(after) > 0 {
			to = "\n" + strings.Join(after, "\n") + "\n"
		}
		if n := strings.Count(source, from); n != 1 {
			return fmt.Errorf("%s has this %d times:%s", file, n, from)
		}
		source = strings.Replace(source, from, to, 1)
		before, after = nil, nil
		return nil
	}
	for line := range strings.SplitSeq(strings.TrimRight(lines, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "-"):
			if len(after) > 0 {
				if err := flush(); err != nil {
					return err
				}
			}
			before = append(before, line[1:])
		case strings.HasPrefix(line, "+"):
			after = append(after, line[1:])
		case line == "": // between two places
			if err := flush(); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s: what is %q?", file, line)
		}
	}
	if err := flush(); err != nil {
		return err
	}
	d.sources[file] = source
	return nil
}

// buildWith runs go build with the changed sources in the place of the true ones.
func buildWith(ctx context.Context, root, dir string, sources map[string]string, args ...string) error {
	replace := map[string]string{}
	for file, source := range sources {
		changed := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(changed, []byte(source), 0o600); err != nil {
			return err
		}
		replace[filepath.Join(root, file)] = changed
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-buildvcs=false", "-trimpath",
		"-overlay", overlay}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	return nil
}

// TestDefects puts defects back, one at a time, and holds that the attacks which a
// defect names catch it. All must fit the sources; `make check ONLY=adversary` tries
// every one.
func TestDefects(t *testing.T) {
	root, err := controlplane.Checkout()
	must.OK(t, err)
	all, err := readDefects(root)
	must.OK(t, err)
	patterns, tried := few, 0
	if *chosen != "" {
		patterns = strings.Split(*chosen, ",")
	}
	for _, d := range all {
		matches := func(pattern string) bool { ok, err := path.Match(pattern, d.name); return ok || err != nil }
		if slices.ContainsFunc(patterns, matches) {
			tried++
			if *chosen == "" {
				d.caught = d.caught[:1]
			}
			t.Run(d.name, func(t *testing.T) { d.try(t, root) })
		}
	}
	if tried == 0 || *chosen == "" && tried < len(few) {
		t.Errorf("of %q %d are defects", patterns, tried)
	}
}

func (d defect) try(t *testing.T, root string) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "kubehsm")
	must.OK(t, buildWith(t.Context(), root, dir, d.sources, "-ldflags=-s -w", "-o", binary, "."))
	for _, touch := range []bool{false, true} {
		var r *rig
		for _, a := range attacks {
			if a.touch != touch || !slices.Contains(d.caught, a.name) {
				continue
			}
			if r == nil {
				var readers *vcard.Lab
				if touch {
					readers = vcard.ForTest(t)
				}
				r = newRig(t, binary, readers)
			}
			v := r.attacked(t, a)
			if len(v.wrong) == 0 {
				t.Errorf("%s: %s does not catch it; what kept it from being made: %q\n%s", d.what, a.name, v.broken,
					strings.Join(v.logs, "\n"))
				continue
			}
			for _, w := range v.wrong {
				t.Logf("%s: %.500s", a.name, w)
			}
		}
	}
}
