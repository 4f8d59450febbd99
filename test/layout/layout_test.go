// Package layout holds the tree to its plan: what lies at the top level, who
// may import whom, what the binary must not drag in, and that the pages about it are true.
package layout

import (
	"debug/elf"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

const module = "github.com/kubehsm/kubehsm"

// ceiling is how many lines the product may have. It only falls.
const ceiling = 101657

// apart are folders of code that only tests import.
var apart = []string{"flowtest", "screentest", "tuitest", "bridgetest", "hsmtest"}

var top = filepath.Join("..", "..")

// command runs a command at the top and returns what it prints.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = top
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	return string(out)
}

// files are the files of git that patterns name, those not yet added among them.
func files(t *testing.T, patterns ...string) (names []string) {
	t.Helper()
	out := command(t, "git", append([]string{"ls-files", "--cached", "--others", "--exclude-standard"}, patterns...)...)
	for _, name := range strings.Fields(out) {
		if _, err := os.Stat(filepath.Join(top, name)); err == nil { // not one that is being removed
			names = append(names, name)
		}
	}
	return names
}

// read returns the text of a file, by its path from the top.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(name)))
	must.OK(t, err)
	return string(b)
}

// source is a file of the module, for any platform, that is no test's.
type source struct {
	path, part string // part is its folder, "main" for the top
	*ast.File
}

var (
	fset   = token.NewFileSet()
	parsed []source
	once   sync.Once
)

func sources(t *testing.T) []source {
	t.Helper()
	once.Do(func() {
		for _, name := range files(t, "*.go", ":!:*_test.go", ":!:test", ":!:*/testdata/*") {
			if under(name, "plugin/kubehsm-cluster") || under(name, "plugin/externalsigner/provider") {
				continue // modules of their own
			}
			f, err := parser.ParseFile(fset, name, read(t, name), parser.SkipObjectResolution)
			must.OK(t, err)
			part := path.Dir(name)
			if part == "." {
				part = "main"
			}
			parsed = append(parsed, source{name, part, f})
		}
	})
	return parsed
}

// TestSize: the product does not grow.
func TestSize(t *testing.T) {
	lines := 0
	for _, name := range files(t, "*.go", ":!:*_test.go", ":!:test", ":!:*/testdata/*") {
		text := read(t, name)
		if slices.Contains(apart, path.Base(path.Dir(name))) || strings.Contains(text, "Code generated") {
			continue
		}
		lines += strings.Count(text, "\n")
	}
	if lines > ceiling {
		t.Errorf("the product has %d lines, at most %d are allowed", lines, ceiling)
	}
}

// layers says what of ours each part may import; the longest matching prefix
// counts. Tests may import everything.
var layers = map[string][]string{
	"main":                {"hsm", "csr", "kubeconfig", "plugin", "ui"},
	"hsm":                 nil,
	"hsm/shared":          nil,
	"hsm/piv":             {"hsm"},
	"hsm/pkcs11":          {"hsm"},
	"hsm/attest":          {"hsm"},
	"hsm/hsmtest":         {"hsm"},
	"csr":                 nil,
	"kubeconfig":          {"kubeconfig"},
	"plugin":              {"hsm", "csr", "kubeconfig", "plugin"},
	"ui":                  {"hsm", "csr", "kubeconfig", "plugin", "ui/text"},
	"ui/text":             nil,
	"ui/present/question": {"hsm", "ui/text"},
	"ui/prompt/pinentry":  {"hsm", "plugin/ask", "ui/text", "ui/present/question"},
	"ui/prompt":           {"hsm", "plugin/ask", "ui/text", "ui/present/question", "ui/prompt/pinentry"},
	"ui/verb":             {"hsm"},
	"ui/flow":             {"hsm", "csr", "kubeconfig", "plugin", "assets", "ui/flow", "ui/verb"},
	"ui/flow/doctor":      {"hsm", "csr", "kubeconfig", "plugin", "ui/flow", "ui/present"},
	"ui/present":          {"hsm", "csr", "kubeconfig", "plugin", "ui"},
	"ui/waiting":          {"plugin", "ui"},
	"ui/interrupt":        {"hsm", "ui"},
	"ui/credential":       {"hsm", "csr", "kubeconfig", "plugin", "ui"},
	"ui/drivers":          {"hsm", "plugin/home", "plugin/settings"},
	"ui/signer":           {"hsm", "plugin", "ui"},
	"ui/worker":           {"hsm", "plugin", "ui"},
	"ui/cli":              {"hsm", "csr", "kubeconfig", "plugin", "ui", "assets"},
	"ui/tui":              {"hsm", "csr", "kubeconfig", "plugin", "ui"},
	"assets":              nil,
}

// orders says what each part never imports, though its layer may; the longest part counts: within plugin,
// questions come first, then workers, held tokens and the agent that has them; screens know the flow and not
// the agent.
var orders = map[string][]string{
	"plugin/ask": {"plugin/worker", "plugin/agent", "plugin/bridge", "plugin/enrollment"},
	"plugin/worker": {"plugin/agent/client", "plugin/agent/token", "plugin/agent/host", "plugin/bridge",
		"plugin/enrollment"}, // plugin/agent itself would be a cycle
	"plugin/agent/wire": {"plugin/worker", "plugin/agent/client", "plugin/agent/token", "plugin/agent/host",
		"plugin/bridge"},
	"plugin/agent/token":  {"plugin/agent/client", "plugin/agent/host", "plugin/bridge"},
	"plugin/agent/client": {"plugin/worker", "plugin/agent/token", "plugin/agent/host"}, // an agent starts by its bridge's port
	"ui/present":          {"ui/cli", "ui/tui", "ui/prompt", "plugin/agent/client", "plugin/worker"},
	"ui/tui":              {"ui/cli", "plugin/bridge", "plugin/agent/host", "plugin/agent/token"},
	"ui/flow":             {"ui/present", "plugin/agent/host", "plugin/agent/token"},
	"ui/flow/doctor":      {"plugin/agent/host", "plugin/agent/token"}, // findings are words
}

// drivers are what only main may import, by way of ui/drivers, and the program's part as worker; their
// parts are their own. Charm only ui/tui.
var drivers = map[string][]string{
	"hsm/piv": {"ui/drivers"}, "hsm/pkcs11": {"ui/drivers"}, "ui/drivers": {"main", "ui/worker"},
	"hsm/piv/applet": {"hsm/piv"}, "hsm/piv/pcsc": {"hsm/piv", "hsm/piv/applet"}, "hsm/pkcs11/p11kit": {"hsm/pkcs11"},
}

func under(path, part string) bool { return path == part || strings.HasPrefix(path, part+"/") }

func underAny(path string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return under(path, p) })
}

// rule returns what a table says of a part: the row with the longest prefix of it.
func rule(table map[string][]string, part string) (words []string, found bool) {
	longest := ""
	for p, w := range table {
		if under(part, p) && len(p) > len(longest) {
			longest, words = p, w
		}
	}
	return words, longest != ""
}

// only are libraries that one part alone may use, and why.
var only = []struct{ library, part, why string }{
	{"charm.land", "ui/tui", "only the terminal UI may"},
	{"github.com/spf13/cobra", "ui/cli", "only the command line may"},
	{"github.com/gofrs/flock", "hsm/shared/filelock", "it says what a refused lock means"},
}

func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		may, found := rule(layers, s.part)
		if !found {
			t.Errorf("%s is in no known part of the tree", s.path)
		}
		var never []string
		if slices.Contains(apart, path.Base(s.part)) {
			may = append(slices.Clip(may), "test/must", "test/need")
		} else {
			never, _ = rule(orders, s.part)
		}
		for _, spec := range s.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			must.OK(t, err)
			for _, o := range only {
				if under(imp, o.library) && !under(s.part, o.part) {
					t.Errorf("%s imports %s, not %s: %s", s.path, imp, o.part, o.why)
				}
			}
			dep, ours := strings.CutPrefix(imp, module+"/")
			if !ours {
				continue
			}
			if of, driver := drivers[dep]; driver && !slices.Contains(of, s.part) && !under(s.part, "hsm/hsmtest") {
				t.Errorf("%s imports the driver %s: only %s may", s.path, dep, strings.Join(of, " and "))
			}
			if underAny(dep, never) || !under(dep, "hsm/shared") && !underAny(dep, may) {
				t.Errorf("%s imports %s: not by the plan (docs/architecture.md)", s.path, dep)
			}
		}
	}
}

// TestBinaryIsTheProduct: the programs link neither tests nor what tests are made of.
func TestBinaryIsTheProduct(t *testing.T) {
	for dep := range strings.FieldsSeq(command(t, "go", "list", "-deps", ".", "./plugin/kubehsm-credential")) {
		if under(dep, "testing") || under(dep, module+"/test") {
			t.Errorf("a program contains %s", dep)
		}
	}
}

// TestBinaryLinksLittle: every shared library is loaded at each start, and one that
// is missing is the end of it. Where text/template is run, which looks methods up
// by name, the linker keeps every method of every type: a third more.
func TestBinaryLinksLittle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubehsm")
	command(t, "go", "build", "-buildvcs=false", "-o", path, ".")
	if runtime.GOOS != "linux" {
		return // the file is built
	}
	binary, err := elf.Open(path)
	must.OK(t, err)
	defer binary.Close()
	libraries, err := binary.ImportedLibraries()
	must.OK(t, err)
	for _, l := range libraries { // the C library, in older ones several
		if name, _, _ := strings.Cut(l, ".so"); !slices.Contains([]string{"libc", "libdl", "libpthread", "libresolv"}, name) {
			t.Errorf("the binary is linked to %s", l)
		}
	}
	symbols, err := binary.Symbols()
	must.OK(t, err)
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "text/template.(*state).") {
			t.Errorf("the binary contains %s", s.Name)
		}
	}
}

var (
	// platforms are those that TestBuildsWithoutCgo builds for; the tag platforms adds to them.
	platforms = []string{"linux/amd64"}
	// withoutCgo are the packages that it builds: those that have files for cgo, and those that import these.
	// With the tag platforms it is everything.
	withoutCgo = []string{"./hsm/...", "./ui/drivers"}
)

// TestBuildsWithoutCgo: all but the test programs builds for every platform that we speak of
// without a C compiler; a driver that a build lacks says so itself.
func TestBuildsWithoutCgo(t *testing.T) {
	t.Setenv("CGO_ENABLED", "0")
	for _, platform := range platforms {
		t.Run(platform, func(t *testing.T) {
			system, arch, _ := strings.Cut(platform, "/")
			t.Setenv("GOOS", system)
			t.Setenv("GOARCH", arch)
			command(t, "go", "list", "-deps", ".", "./plugin/...") // fails for a package that has no file left
			command(t, "go", append([]string{"build"}, withoutCgo...)...)
		})
	}
}

// TestTopLevel: the top level is fixed.
func TestTopLevel(t *testing.T) {
	fixed := []string{"go.mod", "go.sum", "main.go", "ui", "hsm", "kubeconfig", "plugin", "csr", "assets", "test",
		"goreleaser.yaml", "README.md", "docs", "LICENSE", "Makefile"}
	for f := range strings.FieldsSeq(command(t, "git", "ls-files")) {
		top, _, _ := strings.Cut(f, "/")
		if !strings.HasPrefix(top, ".") && !slices.Contains(fixed, top) {
			t.Errorf("%s: %q is not part of the top level", f, top)
		}
	}
}
