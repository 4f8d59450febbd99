package layout

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
)

// asked are methods that others call by an interface: errors, fmt and encoding/json.
var asked = []string{"Error", "Unwrap", "Hint", "Details", "String", "MarshalJSON", "UnmarshalJSON"}

// untestedUseCases counts the exported functions and methods of the use cases that no
// test of the same package names, itself or by way of others of the package.
func untestedUseCases(tr *tree) result {
	var found []string
	for _, p := range tr.packages {
		if !under(p.name, "ui/flow") || p.name == "ui/flow/env" { // package env has no use case
			continue
		}
		named, err := tr.namedByTests(p)
		if err != nil {
			return result{1 << 20, []string{err.Error()}}
		}
		uses, exported := calledBy(p)
		for pending := slices.Collect(maps.Keys(named)); len(pending) > 0; {
			next := uses[pending[0]]
			pending = pending[1:]
			for name := range next {
				if !named[name] {
					named[name] = true
					pending = append(pending, name)
				}
			}
		}
		for name, f := range exported {
			if !named[name] {
				found = append(found, tr.at(p, f.Pos())+" "+name)
			}
		}
	}
	return listOf(found)
}

// calledBy are the functions of a package that each of them names, and those of them that
// are exported.
func calledBy(p *part) (uses map[string]map[string]bool, exported map[string]*ast.FuncDecl) {
	uses, exported = map[string]map[string]bool{}, map[string]*ast.FuncDecl{}
	for _, file := range p.files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			of := p.info.Defs[f.Name].(*types.Func)
			name := funcName(of)
			uses[name] = map[string]bool{}
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if used, ok := p.info.Uses[id].(*types.Func); ok && used.Pkg() == p.types {
						uses[name][funcName(used)] = true
					}
				}
				return true
			})
			if f.Name.IsExported() && (f.Recv == nil || !slices.Contains(asked, f.Name.Name)) {
				exported[name] = f
			}
		}
	}
	return uses, exported
}

// funcName names a function or method within its package.
func funcName(f *types.Func) string {
	recv := f.Signature().Recv()
	if recv == nil {
		return f.Name()
	}
	t := recv.Type()
	if ptr, ok := t.(*types.Pointer); ok {
		t = ptr.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name() + "." + f.Name()
	}
	return f.Name()
}

// namedByTests are the functions of p that its tests name.
func (tr *tree) namedByTests(p *part) (map[string]bool, error) {
	named := map[string]bool{}
	for _, files := range []struct {
		names []string
		with  []*ast.File
	}{{p.inside, p.files}, {p.outside, nil}} {
		if len(files.names) == 0 {
			continue
		}
		all := slices.Clone(files.with)
		for _, name := range files.names {
			f, err := parser.ParseFile(tr.fset, filepath.Join(p.dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			all = append(all, f)
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
		conf := types.Config{Importer: tr.imports, FakeImportC: true}
		if _, err := conf.Check(p.types.Path(), tr.fset, all, info); err != nil {
			return nil, fmt.Errorf("types of the tests of %s: %w", p.name, err)
		}
		for id, o := range info.Uses {
			f, ok := o.(*types.Func)
			if ok && f.Pkg() != nil && f.Pkg().Path() == p.types.Path() && slices.Contains(files.names, tr.file(id.Pos())) {
				named[funcName(f)] = true
			}
		}
	}
	return named, nil
}
