package layout

import (
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
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// tree is the product's code with its types: neither tests, nor what only tests
// import, nor generated code.
type tree struct {
	fset     *token.FileSet
	packages []*part
	imports  types.Importer
}

// part is one package. Its name is the import path within the module ("main" for the top).
type part struct {
	name  string
	dir   string
	files []*ast.File
	lines int // lines that are not blank, of all platforms
	count int // files, of all platforms
	tests int // files of tests
	// long are the lines of over 120 columns, each with its place.
	long []string
	// inside and outside are the files of tests in the package and beside it.
	inside, outside []string
	types           *types.Package
	info            *types.Info
	deps            []string // the names of our packages that it imports
}

// apart are packages that are not the product's.
var apart = []string{"hsm/hsmtest", "plugin/bridge/bridgetest", "ui/flow/flowtest", "ui/tui/screentest",
	"ui/tui/tuitest", "plugin/externalsigner/v1alpha1"}

type listed struct {
	ImportPath, Dir, Export           string
	GoFiles, CgoFiles, IgnoredGoFiles []string
	TestGoFiles, XTestGoFiles         []string
	Imports                           []string
	DepOnly                           bool
}

// load reads the product once for all tests.
var load = sync.OnceValues(func() (*tree, error) {
	cmd := exec.Command("go", "list", "-export", "-deps",
		"-json=ImportPath,Dir,Export,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles,Imports,DepOnly",
		".", "./hsm/...", "./csr/...", "./kubeconfig/...", "./plugin/...", "./ui/...")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	var ours []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[l.ImportPath] = l.Export
		if under(l.ImportPath, module) && !l.DepOnly {
			ours = append(ours, l)
		}
	}
	tr := &tree{fset: token.NewFileSet()}
	tr.imports = importer.ForCompiler(tr.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, l := range ours {
		name := within(l.ImportPath)
		if excluded(name) {
			continue
		}
		p, err := tr.check(name, l)
		if err != nil {
			return nil, err
		}
		tr.packages = append(tr.packages, p)
	}
	return tr, nil
})

func excluded(name string) bool {
	for _, a := range apart {
		if under(name, a) {
			return true
		}
	}
	return false
}

// within returns a package's name within the module.
func within(path string) string {
	if path == module {
		return "main"
	}
	return strings.TrimPrefix(path, module+"/")
}

// check parses and types one package; what it imports is read from the compiler's export data.
func (tr *tree) check(name string, l listed) (*part, error) {
	p := &part{name: name, dir: l.Dir, tests: len(l.TestGoFiles) + len(l.XTestGoFiles),
		inside: l.TestGoFiles, outside: l.XTestGoFiles, info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
			Selections: map[*ast.SelectorExpr]*types.Selection{},
		}}
	for _, imp := range l.Imports {
		if under(imp, module) {
			p.deps = append(p.deps, within(imp))
		}
	}
	for _, f := range append(append(l.GoFiles, l.CgoFiles...), l.IgnoredGoFiles...) {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(l.Dir, f))
		if err != nil {
			return nil, err
		}
		p.count++
		n := 0
		for line := range strings.Lines(string(data)) {
			n++
			if strings.TrimSpace(line) != "" {
				p.lines++
			}
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 120 {
				p.long = append(p.long, fmt.Sprintf("%s/%s:%d", p.name, filepath.Base(f), n))
			}
		}
	}
	for _, f := range append(l.GoFiles, l.CgoFiles...) {
		file, err := parser.ParseFile(tr.fset, filepath.Join(l.Dir, f), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, file)
	}
	conf := types.Config{Importer: tr.imports, FakeImportC: true}
	var err error
	p.types, err = conf.Check(l.ImportPath, tr.fset, p.files, p.info)
	if err != nil {
		return nil, fmt.Errorf("types of %s: %w", name, err)
	}
	return p, nil
}

// at says where pos is, within the module.
func (tr *tree) at(p *part, pos token.Pos) string {
	where := tr.fset.Position(pos)
	return fmt.Sprintf("%s/%s:%d", p.name, filepath.Base(where.Filename), where.Line)
}

// file is the base name of the file in which pos is.
func (tr *tree) file(pos token.Pos) string { return filepath.Base(tr.fset.Position(pos).Filename) }

// each calls f with every node of the product's code.
func (tr *tree) each(f func(p *part, n ast.Node)) {
	for _, p := range tr.packages {
		for _, file := range p.files {
			ast.Inspect(file, func(n ast.Node) bool {
				if n != nil {
					f(p, n)
				}
				return true
			})
		}
	}
}

// named are the types that a package defines, those within functions among them.
func (p *part) named() []*types.TypeName {
	var all []*types.TypeName
	for _, o := range p.info.Defs {
		if n, ok := o.(*types.TypeName); ok && !n.IsAlias() {
			if _, isParam := n.Type().(*types.TypeParam); !isParam {
				all = append(all, n)
			}
		}
	}
	return all
}

// lookup returns the object name of the package called from as p sees it, nil if p knows nothing of it.
func (tr *tree) lookup(p *part, from, name string) types.Object {
	if p.name == from {
		return p.types.Scope().Lookup(name)
	}
	pkg, err := tr.imports.Import(module + "/" + from)
	if err != nil {
		return nil
	}
	return pkg.Scope().Lookup(name)
}

func product(t *testing.T) *tree {
	t.Helper()
	tr, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func longLines(tr *tree) result {
	var found []string
	for _, p := range tr.packages {
		found = append(found, p.long...)
	}
	return listOf(found)
}
