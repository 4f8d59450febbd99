package controlplane

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/mod/modfile"

	"github.com/kubehsm/kubehsm/test/stamp"
)

const (
	binary    = "cluster"
	stampFile = "stamp"
)

// servers are the programs that are taken from the machine where it has both.
var servers = []string{string(Etcd), string(APIServer)}

// quick halves the time that compiling takes. The Makefile builds everything that
// runs beside the control plane with it, so that Go's build cache serves all.
var quick = []string{"-trimpath", "-gcflags=all=-N -l"}

// optimized is for measurements and Kubernetes' own suites.
var optimized = []string{"-trimpath", "-gcflags=all="}

// Progress is told what a build is at, and how far: of the packages that need
// compiling all are counted in total, of the modules also those that need no
// fetching. total is 0 while it is not known yet.
type Progress func(at Stage, done, total int)

// Stage is a stage of a build.
type Stage string

// The stages, in their order.
const (
	Fetching  Stage = "fetching"  // modules
	Compiling Stage = "compiling" // packages
)

// Build makes the control plane's programs in the checkout's .cache/cluster,
// unless they are there and current, and returns that folder. The first build
// takes minutes; Go's build cache makes later ones a matter of seconds.
// progress may be nil.
//
// An etcd and a kube-apiserver that are in KUBEBUILDER_ASSETS, or else on PATH,
// are used as they are.
func Build(ctx context.Context, progress Progress) (string, error) {
	return build(ctx, false, progress)
}

// BuildWhole is [Build] for [Options.Whole]: with optimizations, with the whole
// controller manager, and of nothing that the machine has. The folder is
// .cache/cluster-whole.
func BuildWhole(ctx context.Context, progress Progress) (string, error) {
	return build(ctx, true, progress)
}

func build(ctx context.Context, whole bool, progress Progress) (string, error) {
	b, err := newBuilder(whole)
	if err != nil {
		return "", err
	}
	if progress != nil {
		b.progress = progress
	}
	if err := b.build(ctx); err != nil {
		return "", fmt.Errorf("build the control plane: %w", err)
	}
	return b.bin, nil
}

// Built returns the folder that [Build], or [BuildWhole], fills and whether its
// programs are current.
func Built(ctx context.Context, whole bool) (bin string, current bool, err error) {
	b, err := newBuilder(whole)
	if err != nil {
		return "", false, err
	}
	current, err = b.current(ctx)
	return b.bin, current, err
}

type builder struct {
	source   string            // folder of the nested module
	bin      string            // folder to fill
	programs []string          // links in the folder to one binary, which looks at the name it is called by
	found    map[string]string // programs of the machine that are used, by name
	flags    []string          // of the go command
	progress Progress
}

func newBuilder(whole bool) (*builder, error) {
	root, err := Checkout()
	if err != nil {
		return nil, err
	}
	b := &builder{source: filepath.Join(root, "test", "cluster"), bin: filepath.Join(root, ".cache", "cluster"),
		programs: []string{"kubectl", string(Kubelet)}, flags: quick, progress: func(Stage, int, int) {}}
	if whole {
		b.bin += "-whole"
		b.flags = append(slices.Clone(optimized), "-tags=whole")
		b.programs = append(b.programs, wholeManager)
	} else {
		b.programs = append(b.programs, string(Controllers))
		b.found = findServers()
	}
	if b.found != nil {
		b.flags = append(slices.Clone(quick), "-tags=noservers")
	} else {
		b.programs = append(b.programs, servers...)
	}
	return b, nil
}

// findServers returns the machine's [servers] with their paths, if it has them all in one of
// the places that are looked at.
func findServers() map[string]string {
	assets := os.Getenv("KUBEBUILDER_ASSETS") // where envtest has them
	for _, look := range []func(string) (string, error){
		func(name string) (string, error) { return exec.LookPath(filepath.Join(assets, name)) },
		exec.LookPath,
	} {
		found := map[string]string{}
		for _, name := range servers {
			if path, err := look(name); err == nil && filepath.IsAbs(path) {
				found[name] = path
			}
		}
		if len(found) == len(servers) {
			return found
		}
	}
	return nil
}

func (b *builder) build(ctx context.Context) error {
	if err := os.MkdirAll(b.bin, 0o755); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(b.bin, "lock"))
	if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil {
		return fmt.Errorf("wait for another build: %w", err)
	}
	defer lock.Unlock()

	want, err := b.stamp(ctx)
	if err != nil {
		return err
	}
	if b.has(want) {
		return nil
	}
	b.progress(Fetching, 0, 0)
	stale, err := b.stale(ctx)
	if err != nil {
		return err
	}
	if err := b.compile(ctx, stale); err != nil {
		return err
	}
	links := maps.Clone(b.found)
	if links == nil {
		links = map[string]string{}
	}
	for _, name := range b.programs {
		links[name] = binary
	}
	for name, target := range links {
		link := filepath.Join(b.bin, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(b.bin, stampFile), []byte(want+"\n"), 0o644)
}

func (b *builder) current(ctx context.Context) (bool, error) {
	want, err := b.stamp(ctx)
	return err == nil && b.has(want), err
}

func (b *builder) has(stamp string) bool {
	have, err := os.ReadFile(filepath.Join(b.bin, stampFile))
	if err != nil || strings.TrimSpace(string(have)) != stamp {
		return false
	}
	for _, name := range slices.Concat(b.programs, slices.Collect(maps.Keys(b.found))) {
		if _, err := os.Stat(filepath.Join(b.bin, name)); err != nil {
			return false
		}
	}
	return true
}

// stamp is a digest of all that decides what the build makes.
func (b *builder) stamp(ctx context.Context) (string, error) {
	flags, err := b.linkFlags(ctx)
	if err != nil {
		return "", err
	}
	toolchain, err := b.output(ctx, "env", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%q\n%q\n", flags, toolchain, b.flags, b.found)
	for _, path := range b.found {
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, info.Size(), info.ModTime().UnixNano())
	}
	for _, name := range []string{"go.mod", "go.sum", "main.go", "servers.go", "controllers.go", "manager.go", "kubelet.go"} {
		content, err := os.ReadFile(filepath.Join(b.source, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(content), content)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// linkFlags stamp the Kubernetes version of go.mod into the programs.
func (b *builder) linkFlags(ctx context.Context) (string, error) {
	version, err := stamp.Flags(ctx, b.source, "k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	return strings.Join(append([]string{"-s", "-w"}, version...), " "), nil
}

// stale returns the packages that are not in Go's build cache. Asking also
// fetches missing modules.
func (b *builder) stale(ctx context.Context) (map[string]bool, error) {
	file, err := os.ReadFile(filepath.Join(b.source, "go.mod"))
	if err != nil {
		return nil, err
	}
	mod, err := modfile.ParseLax("go.mod", file, nil)
	if err != nil {
		return nil, err
	}
	// -x has the go command say what it fetches.
	cmd := b.command(ctx, slices.Concat([]string{"list", "-x", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"},
		b.flags, []string{"."})...)
	var out strings.Builder
	cmd.Stdout = &out
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	words := b.follow(stderr, Fetching, len(mod.Require), func(line string) bool {
		return strings.HasPrefix(line, "# get ") && strings.Contains(line, ".zip: 200")
	})
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, words)
	}
	set := map[string]bool{}
	for _, path := range strings.Fields(out.String()) {
		set[path] = true
	}
	return set, nil
}

func (b *builder) compile(ctx context.Context, stale map[string]bool) error {
	flags, err := b.linkFlags(ctx)
	if err != nil {
		return err
	}
	fresh := filepath.Join(b.bin, binary+".new")
	cmd := b.command(ctx, slices.Concat([]string{"build", "-buildvcs=false", "-v", "-ldflags", flags, "-o", fresh},
		b.flags, []string{"."})...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	b.progress(Compiling, 0, len(stale))
	if err := cmd.Start(); err != nil {
		return err
	}
	makeNice(cmd.Process.Pid)
	words := b.follow(stderr, Compiling, len(stale), func(line string) bool { return stale[line] })
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, words)
	}
	return os.Rename(fresh, filepath.Join(b.bin, binary))
}

// follow counts the lines that are of a step done, and returns the end of what
// else was said.
func (b *builder) follow(r io.Reader, at Stage, total int, isStep func(line string) bool) string {
	var other []string
	done := 0
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if isStep(line) {
			done++
			b.progress(at, min(done, total), total)
			continue
		}
		other = append(other, line)
		other = other[max(0, len(other)-30):]
	}
	return strings.Join(other, "\n")
}

// command is the go command in the nested module. Its process group is its
// own, so that a cancelled build takes the compilers with it.
func (b *builder) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.source
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	endWithGroup(cmd)
	return cmd
}

func (b *builder) output(ctx context.Context, args ...string) (string, error) {
	cmd := b.command(ctx, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
