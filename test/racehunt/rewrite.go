//go:build linux

package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"slices"
	"strings"
)

// rewrite puts a call of the package pause before each statement of a file's
// functions, and at the end of those without results. No line is moved, so that
// messages name the lines of the file as it was. Generated code, cgo's and
// functions with a compiler directive stay as they are; a file without a place for
// a call is returned as nil.
func rewrite(name string, src []byte, pause string) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	cgo := func(i *ast.ImportSpec) bool { return i.Path.Value == `"C"` }
	if ast.IsGenerated(file) || slices.ContainsFunc(file.Imports, cgo) {
		return nil, nil
	}
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	type edit struct {
		at   int
		text string
	}
	var edits []edit
	call := func(at token.Pos, form string) {
		h := fnv.New32a()
		fmt.Fprintf(h, "%s:%d", name, len(edits))
		edits = append(edits, edit{offset(at), fmt.Sprintf(form, h.Sum32())})
	}
	before := func(list []ast.Stmt) {
		for _, s := range list {
			switch s.(type) {
			case *ast.CaseClause, *ast.CommClause, *ast.EmptyStmt:
			default:
				call(s.Pos(), alias+".At(%d);")
			}
		}
	}
	function := func(typ *ast.FuncType, body *ast.BlockStmt) {
		if body != nil && (typ.Results == nil || len(typ.Results.List) == 0) {
			call(body.Rbrace, ";"+alias+".At(%d)")
		}
	}
	directive := func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:") }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Doc != nil && slices.ContainsFunc(n.Doc.List, directive) {
				return false
			}
			function(n.Type, n.Body)
		case *ast.FuncLit:
			function(n.Type, n.Body)
		case *ast.BlockStmt:
			before(n.List)
		case *ast.CaseClause:
			before(n.Body)
		case *ast.CommClause:
			before(n.Body)
		}
		return true
	})
	if len(edits) == 0 {
		return nil, nil
	}
	edits = append(edits, edit{offset(file.Name.End()), fmt.Sprintf(";import %s %q", alias, pause)})
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	var out []byte
	done := 0
	for _, e := range edits {
		out = append(append(out, src[done:e.at]...), e.text...)
		done = e.at
	}
	return append(out, src[done:]...), nil
}

// alias is a name for the package pause that nothing else has.
const alias = "racehunt_pause"
