// Package layout holds the tree to its plan: what lies at the top level, who
// may import whom, and what the binary must not drag in.
package layout

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kubehsm/kubehsm"

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// list runs `go list -json` at the top of the module.
func list(t *testing.T, env []string, patterns ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Deps"}, patterns...)...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for dec := json.NewDecoder(out); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("go list %s found nothing", strings.Join(patterns, " "))
	}
	return all
}

// layers says what of ours each part may import; the longest matching prefix
// counts. Test code is free.
var layers = []struct {
	part string
	may  []string
}{
	{"main", []string{"hsm", "csr", "kubeconfig", "plugin", "ui"}},
	{"hsm", nil},
	{"hsm/shared", nil},
	{"hsm/piv", []string{"hsm"}},
	{"hsm/pkcs11", []string{"hsm"}},
	{"hsm/attest", []string{"hsm"}},
	{"hsm/hsmtest", []string{"hsm", "test/need"}},
	{"csr", nil},
	{"kubeconfig", []string{"kubeconfig"}},
	{"plugin", []string{"hsm", "csr", "kubeconfig", "plugin"}},
	{"ui", []string{"hsm", "csr", "kubeconfig", "plugin", "ui/text"}},
	{"ui/text", nil},
	{"ui/present/question", []string{"hsm", "ui/text"}},
	{"ui/prompt/pinentry", []string{"hsm", "plugin/ask", "ui/text", "ui/present/question"}},
	{"ui/prompt", []string{"hsm", "plugin/ask", "ui/text", "ui/present/question", "ui/prompt/pinentry"}},
	{"ui/flow", []string{"hsm", "csr", "kubeconfig", "plugin", "assets", "ui/flow"}},
	{"ui/flow/doctor", []string{"hsm", "csr", "kubeconfig", "plugin", "ui/flow", "ui/present"}},
	{"ui/present", []string{"hsm", "csr", "kubeconfig", "plugin", "ui"}},
	{"ui/waiting", []string{"plugin", "ui"}},
	{"ui/interrupt", []string{"hsm", "ui"}},
	{"ui/credential", []string{"hsm", "csr", "kubeconfig", "plugin", "ui"}},
	{"ui/drivers", []string{"hsm", "plugin/home", "plugin/settings"}},
	{"ui/signer", []string{"hsm", "plugin", "ui"}},
	{"ui/worker", []string{"hsm", "plugin", "ui"}},
	{"ui/cli", []string{"hsm", "csr", "kubeconfig", "plugin", "ui", "assets"}},
	{"ui/tui", []string{"hsm", "csr", "kubeconfig", "plugin", "ui"}},
	{"assets", nil},
	{"test", []string{"hsm", "csr", "kubeconfig", "plugin", "ui", "test", "assets"}},
}

func under(path, part string) bool { return path == part || strings.HasPrefix(path, part+"/") }

// drivers are what only main may import, by way of ui/drivers, and the program's parts as worker and
// signer; their parts are their own. Charm only ui/tui.
var drivers = map[string][]string{
	"hsm/piv": {"ui/drivers"}, "hsm/pkcs11": {"ui/drivers"}, "ui/drivers": {"main", "ui/signer/once", "ui/worker"},
	"hsm/piv/applet": {"hsm/piv"}, "hsm/piv/pcsc": {"hsm/piv", "hsm/piv/applet"}, "hsm/pkcs11/p11kit": {"hsm/pkcs11"},
}

func TestImports(t *testing.T) {
	for _, p := range list(t, nil, "./...") {
		self := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if self == "" {
			self = "main"
		}
		rule := -1
		for i, l := range layers {
			if under(self, l.part) && (rule < 0 || len(l.part) > len(layers[rule].part)) {
				rule = i
			}
		}
		if rule < 0 {
			t.Errorf("%s is in no known part of the tree", self)
			continue
		}
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, "charm.land/") && !under(self, "ui/tui") && !under(self, "test") {
				t.Errorf("%s imports %s: only the terminal UI may", self, imp)
			}
			if imp == "github.com/spf13/cobra" && !under(self, "ui/cli") && !under(self, "test") {
				t.Errorf("%s imports %s: only the command line may", self, imp)
			}
			if imp == "github.com/gofrs/flock" && self != "hsm/shared/filelock" && !under(self, "test") {
				t.Errorf("%s imports %s: hsm/shared/filelock says what a refused lock means", self, imp)
			}
			dep, ours := strings.CutPrefix(imp, module+"/")
			if !ours {
				continue
			}
			if may, driver := drivers[dep]; driver && !slices.Contains(may, self) && !under(self, "test") &&
				!under(self, "hsm/hsmtest") {
				t.Errorf("%s imports the driver %s: only %s may", self, dep, strings.Join(may, " and "))
			}
			if under(dep, "hsm/shared") { // small things that everybody may use
				continue
			}
			if !slices.ContainsFunc(layers[rule].may, func(m string) bool { return under(dep, m) }) {
				t.Errorf("%s imports %s: not by the plan (docs/architecture.md)", self, dep)
			}
		}
	}
}

// TestBinaryIsTheProduct: the programs link neither tests nor what tests are made of.
func TestBinaryIsTheProduct(t *testing.T) {
	for _, p := range list(t, nil, ".", "./plugin/kubehsm-credential") {
		for _, dep := range p.Deps {
			if under(dep, "testing") || under(dep, module+"/test") {
				t.Errorf("%s contains %s", p.ImportPath, dep)
			}
		}
	}
}

// TestBinaryLinksLittle: every shared library is loaded at each start, and one that
// is missing is the end of it. Where text/template is run, which looks methods up
// by name, the linker keeps every method of every type: a third more.
func TestBinaryLinksLittle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubehsm")
	build := exec.Command("go", "build", "-buildvcs=false", "-tags=grpcnotrace", "-o", path, ".") // the flags of a release
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	if runtime.GOOS != "linux" {
		return // the file is built
	}
	binary, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	libraries, err := binary.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range libraries { // the C library, in older ones several
		if name, _, _ := strings.Cut(l, ".so"); !slices.Contains([]string{"libc", "libdl", "libpthread", "libresolv"}, name) {
			t.Errorf("the binary is linked to %s", l)
		}
	}
	symbols, err := binary.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "text/template.(*state).") {
			t.Errorf("the binary contains %s", s.Name)
		}
	}
}

// TestTopLevel: the top level is fixed.
func TestTopLevel(t *testing.T) {
	fixed := []string{"go.mod", "go.sum", "main.go", "ui", "hsm", "kubeconfig", "plugin", "csr", "assets", "test",
		"goreleaser.yaml", "README.md", "docs", "LICENSE", "Makefile"}
	cmd := exec.Command("git", "ls-files")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for _, f := range strings.Fields(string(out)) {
		top, _, _ := strings.Cut(f, "/")
		if !strings.HasPrefix(top, ".") && !slices.Contains(fixed, top) {
			t.Errorf("%s: %q is not part of the top level", f, top)
		}
	}
}
