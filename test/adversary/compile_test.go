//go:build linux && cgo

package adversary

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/test/controlplane"
)

// compiler tells whether a package still compiles with other sources. It checks types
// against what other packages export: to start the go command for each defect costs more.
type compiler struct {
	root     string
	packages map[string]listed // key: folder in the checkout
	importer types.Importer
	files    *token.FileSet
}

// listed is what `go list -json` says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles, CgoFiles       []string
}

// newCompiler knows the packages of these folders in the checkout.
func newCompiler(t *testing.T, root string, folders []string) (*compiler, error) {
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-trimpath",
		"-tags=grpcnotrace", "-json=ImportPath,Dir,Export,GoFiles,CgoFiles"}, folders...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, &said)
	}
	c := &compiler{root: root, packages: map[string]listed{}, files: token.NewFileSet()}
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if folder, err := filepath.Rel(root, p.Dir); err == nil {
			c.packages[folder] = p
		}
	}
	c.importer = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	return c, nil
}

// compile checks the package in a folder with changed sources in the place of the true ones.
func (c *compiler) compile(folder string, sources map[string]string) error {
	p, found := c.packages[folder]
	if !found {
		return fmt.Errorf("%s is no package", folder)
	}
	var files []*ast.File
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		var text any // nil is what the file has
		if source, changed := sources[filepath.Join(folder, name)]; changed {
			text = source
		}
		f, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	_, err := (&types.Config{Importer: c.importer, FakeImportC: true}).Check(p.ImportPath, c.files, files, nil)
	return err
}

// TestDefectsApply: every defect still fits the sources, and what has it compiles.
func TestDefectsApply(t *testing.T) {
	root, err := controlplane.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	all, err := readDefects(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d defects", len(all))
	folders := map[string]bool{}
	for _, d := range all {
		for file := range d.sources {
			folders["./"+filepath.Dir(file)] = true
		}
	}
	c, err := newCompiler(t, root, keysOf(folders))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		for file := range d.sources {
			if err := c.compile(filepath.Dir(file), d.sources); err != nil {
				t.Errorf("%s: %v", d.name, err)
			}
		}
	}
}
