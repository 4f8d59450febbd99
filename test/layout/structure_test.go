package layout

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// measures are the structure's figures: what each may be at most now, and what it is
// to become. Whoever improves one lowers its bar to what is measured then
// (go test -v -run TestStructure ./test/layout).
var measures = []struct {
	name   string
	bar    int
	target int
	count  func(*tree) result
}{
	{"methods of the largest type, its own", 25, 25, largestType},
	{"types of more than 25 methods, embedded ones included", 0, 0, largeMethodSets},
	{"packages over 4,000 lines or 30 files", 0, 0, largePackages},
	{"lines of over 120 columns", 0, 0, longLines},
	{"types that implement asking for a PIN", 4, 4, pinPrompters},
	{"context values that carry what a prompt needs", 0, 0, contextValues},
	{"uses of a scheme outside hsm, drivers and URI parsing", 0, 0, schemes},
	{"imports against the order of the layers", 0, 0, order},
	{"files in the largest cycle of references within a package", 10, 10, largestCycle},
	{"files that know one option of an enrollment", 1, 2, optionFiles},
	{"types that only add a hint to an error", 1, 1, hintErrors},
	{"functions that quote for a shell", 1, 1, shellQuotes},
	{"packages that read JSON strictly by hand", 1, 1, strictJSON},
	{"packages that replace files by renaming", 1, 1, atomicWriters},
	{"functions that list a folder of records", 1, 1, recordStores},
	{"structs that describe a cluster", 1, 1, clusters},
	{"screens without a test of their own", 0, 0, untestedScreens},
	{"use cases that no test of their package reaches", 0, 0, untestedUseCases},
}

// result is a figure and what went into it, each with its place.
type result struct {
	figure int
	found  []string
}

// TestStructure measures the product's code against the bars.
func TestStructure(t *testing.T) {
	tr := product(t)
	for _, m := range measures {
		t.Run(strings.ReplaceAll(strings.ReplaceAll(m.name, ",", ""), " ", "-"), func(t *testing.T) {
			r := m.count(tr)
			slices.Sort(r.found)
			t.Logf("%d (bar %d, target %d)", r.figure, m.bar, m.target)
			if r.figure > m.bar {
				t.Errorf("%s: %d, at most %d allowed (to become %d):\n\t%s",
					m.name, r.figure, m.bar, m.target, strings.Join(r.found, "\n\t"))
			} else if testing.Verbose() {
				t.Logf("\n\t%s", strings.Join(r.found, "\n\t"))
			}
		})
	}
}

func listOf(found []string) result { return result{len(found), found} }

// methods counts the methods of ours in the method set of n, or of a pointer to it:
// those that it declares, and all with those of what it embeds.
func methods(n *types.TypeName) (own, all int) {
	t := n.Type()
	if !types.IsInterface(t) {
		t = types.NewPointer(t)
	}
	for m := range types.NewMethodSet(t).Methods() {
		if pkg := m.Obj().Pkg(); pkg != nil && under(pkg.Path(), module) {
			all++
			if len(m.Index()) == 1 {
				own++
			}
		}
	}
	return own, all
}

func largestType(tr *tree) result {
	var r result
	for _, p := range tr.packages {
		for _, n := range p.named() {
			own, _ := methods(n)
			if p.name == "ui/cli" && n.Name() == "app" { // a method for each verb, which is a file's
				continue
			}
			r.figure = max(r.figure, own)
			if own > 25 {
				r.found = append(r.found, fmt.Sprintf("%s %s.%s: %d", tr.at(p, n.Pos()), p.types.Name(), n.Name(), own))
			}
		}
	}
	return r
}

func largeMethodSets(tr *tree) result {
	var found []string
	for _, p := range tr.packages {
		for _, n := range p.named() {
			if own, all := methods(n); all > 25 && (p.name != "ui/cli" || n.Name() != "app") { // app as in largestType
				found = append(found, fmt.Sprintf("%s %s.%s: %d, %d of its own",
					tr.at(p, n.Pos()), p.types.Name(), n.Name(), all, own))
			}
		}
	}
	return listOf(found)
}

func largePackages(tr *tree) result {
	var found []string
	for _, p := range tr.packages {
		if p.name != "ui/cli" && (p.lines > 4000 || p.count > 30) { // a verb a file reads well
			found = append(found, fmt.Sprintf("%s: %d lines in %d files", p.name, p.lines, p.count))
		}
	}
	return listOf(found)
}

// pinPrompters counts the types that ask for PINs: by a prompter's PIN method, their
// own or that of what they embed, or by a method that is an ask.Func.
func pinPrompters(tr *tree) result {
	var found []string
	for _, p := range tr.packages {
		prompter, asks := tr.lookup(p, "hsm", "Prompter"), tr.lookup(p, "plugin/ask", "Func")
		if prompter == nil {
			continue
		}
		pin, _, _ := types.LookupFieldOrMethod(prompter.Type(), false, nil, "PIN")
		for _, n := range p.named() {
			t := types.NewPointer(n.Type())
			if types.IsInterface(n.Type()) {
				continue
			}
			for m := range types.NewMethodSet(t).Methods() {
				f := m.Obj().(*types.Func)
				isAsk := asks != nil && len(m.Index()) == 1 && types.Identical(signature(f), asks.Type().Underlying())
				if f.Name() == "PIN" && types.Identical(f.Type(), pin.Type()) || isAsk {
					found = append(found, tr.at(p, n.Pos())+" "+n.Name()+"."+f.Name())
					break
				}
			}
		}
	}
	return listOf(found)
}

// signature is f's type without its receiver.
func signature(f *types.Func) *types.Signature {
	s := f.Signature()
	return types.NewSignatureType(nil, nil, nil, s.Params(), s.Results(), s.Variadic())
}

// elsewhere are packages whose context values are no prompt's: a connection's, a
// request's (what net/http's hooks leave no other way), an action's progress, and that it
// waits for a library.
var elsewhere = []string{"plugin/bridge", "plugin/externalsigner/service", "plugin/worker", "ui/tui/screen"}

// contextValues counts the keys under which values are put into a context.
func contextValues(tr *tree) result {
	keys := map[string]string{}
	tr.each(func(p *part, n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 3 || !calls(p, call, "context", "WithValue") || slices.Contains(elsewhere, p.name) {
			return
		}
		key := p.info.TypeOf(call.Args[1]).String()
		keys[key] = tr.at(p, call.Pos()) + " " + path.Base(key)
	})
	return listOf(slices.Collect(maps.Values(keys)))
}

// calls tells whether call calls the function name of the package pkg.
func calls(p *part, call *ast.CallExpr, pkg, name string) bool {
	s, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	o := p.info.Uses[s.Sel]
	return o != nil && o.Pkg() != nil && o.Pkg().Path() == pkg && o.Name() == name
}

// schemes counts the uses of a scheme, the constant or its text in a comparison,
// where what a token can do is known as data.
func schemes(tr *tree) result {
	var found []string
	tr.each(func(p *part, n ast.Node) {
		if slices.Contains([]string{"hsm", "hsm/piv", "hsm/pkcs11", "ui/drivers"}, p.name) {
			return
		}
		switch n := n.(type) {
		case *ast.Ident:
			if o := p.info.Uses[n]; o != nil && (o.Name() == "SchemePIV" || o.Name() == "SchemePKCS11") {
				found = append(found, tr.at(p, n.Pos()))
			}
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && (isScheme(p, n.X) || isScheme(p, n.Y)) {
				found = append(found, tr.at(p, n.Pos()))
			}
		case *ast.CaseClause:
			for _, e := range n.List {
				if isScheme(p, e) {
					found = append(found, tr.at(p, e.Pos()))
				}
			}
		}
	})
	return listOf(found)
}

// isScheme tells whether e is a scheme's text, written out.
func isScheme(p *part, e ast.Expr) bool { return isText(p, e, "piv") || isText(p, e, "pkcs11") }

// isText tells whether n is the literal text.
func isText(p *part, n ast.Node, text string) bool {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return false
	}
	v := p.info.Types[lit].Value // nil for the path of an import and the tag of a field
	return v != nil && constant.StringVal(v) == text
}

// orders says what each part never imports, in addition to the layers of
// [TestImports]; the longest part counts: within plugin, questions come first, then workers, held tokens and
// the agent that has them; screens know the flow and not the agent.
var orders = []struct {
	part string
	not  []string
}{
	{"plugin/ask", []string{"plugin/worker", "plugin/agent", "plugin/bridge", "plugin/enrollment"}},
	{"plugin/worker", []string{"plugin/agent/client", "plugin/agent/token", "plugin/agent/host", "plugin/bridge",
		"plugin/enrollment"}}, // plugin/agent itself would be a cycle
	{"plugin/agent/wire", []string{"plugin/worker", "plugin/agent/client", "plugin/agent/token", "plugin/agent/host",
		"plugin/bridge"}},
	{"plugin/agent/token", []string{"plugin/agent/client", "plugin/agent/host", "plugin/bridge"}},
	{"plugin/agent/client", []string{"plugin/worker", "plugin/agent/token", "plugin/agent/host"}}, // an agent starts by its bridge's port
	{"ui/present", []string{"ui/cli", "ui/tui", "ui/prompt", "plugin/agent/client", "plugin/worker"}},
	{"ui/tui", []string{"ui/cli", "plugin/bridge", "plugin/agent/host", "plugin/agent/token"}},
	{"ui/flow", []string{"ui/present", "plugin/agent/host", "plugin/agent/token"}},
	{"ui/flow/doctor", []string{"plugin/agent/host", "plugin/agent/token"}}, // findings are words
}

func order(tr *tree) result {
	var found []string
	for _, p := range tr.packages {
		var not []string
		longest := -1
		for _, o := range orders {
			if under(p.name, o.part) && len(o.part) > longest {
				not, longest = o.not, len(o.part)
			}
		}
		for _, d := range p.deps {
			if slices.ContainsFunc(not, func(n string) bool { return under(d, n) }) {
				found = append(found, p.name+" imports "+d)
			}
		}
	}
	return listOf(found)
}

// largestCycle counts the files of a package that refer to each other in cycles: what
// lies in one of them is not understood without all others.
func largestCycle(tr *tree) result {
	var r result
	for _, p := range tr.packages {
		if p.name == "ui/cli" { // a verb a file, and one type has them all
			continue
		}
		refers := map[string]map[string]bool{}
		for id, o := range p.info.Uses {
			if o.Pkg() != p.types || !o.Pos().IsValid() || !declared(o, p) {
				continue
			}
			from, to := tr.file(id.Pos()), tr.file(o.Pos())
			if refers[from] == nil {
				refers[from] = map[string]bool{}
			}
			if from != to {
				refers[from][to] = true
			}
		}
		c := cycle(refers)
		r.figure = max(r.figure, len(c))
		if len(c) > 10 {
			r.found = append(r.found, fmt.Sprintf("%s: %d of %d files", p.name, len(c), p.count))
		}
	}
	return r
}

// declared tells whether o stands for something of the whole package: of its scope, a
// method or a field.
func declared(o types.Object, p *part) bool {
	if o.Parent() == p.types.Scope() {
		return true
	}
	f, ok := o.(*types.Func)
	return ok && f.Signature().Recv() != nil
}

// cycle returns the largest set of nodes each of which reaches all others.
func cycle(next map[string]map[string]bool) []string {
	reach := map[string]map[string]bool{}
	for n := range next {
		seen := map[string]bool{}
		for pending := []string{n}; len(pending) > 0; {
			at := pending[0]
			pending = pending[1:]
			for m := range next[at] {
				if !seen[m] {
					seen[m] = true
					pending = append(pending, m)
				}
			}
		}
		reach[n] = seen
	}
	var largest []string
	for n := range next {
		var same []string
		for m := range reach[n] {
			if reach[m][n] {
				same = append(same, m)
			}
		}
		if len(same) > len(largest) {
			largest = same
		}
	}
	return largest
}

// hintErrors counts the errors that carry another one with a hint beside it.
func hintErrors(tr *tree) result {
	var found []string
	for _, p := range tr.packages {
		for _, n := range p.named() {
			set := types.NewMethodSet(types.NewPointer(n.Type()))
			if set.Lookup(nil, "Hint") == nil || set.Lookup(nil, "Unwrap") == nil {
				continue
			}
			s, ok := n.Type().Underlying().(*types.Struct)
			if !ok {
				continue
			}
			var hint, carried bool
			for f := range s.Fields() {
				hint = hint || f.Name() == "hint" && f.Type() == types.Typ[types.String]
				carried = carried || types.Identical(f.Type(), types.Universe.Lookup("error").Type())
			}
			if hint && carried && s.NumFields() == 2 {
				found = append(found, tr.at(p, n.Pos())+" "+n.Name())
			}
		}
	}
	return listOf(found)
}

// shellQuotes counts the functions that quote by hand: an apostrophe among apostrophes.
func shellQuotes(tr *tree) result {
	return functions(tr, func(p *part, f *ast.FuncDecl) bool {
		r := p.info.Defs[f.Name].Type().(*types.Signature).Results()
		if r.Len() != 1 || r.At(0).Type() != types.Typ[types.String] {
			return false
		}
		has := false
		ast.Inspect(f.Body, func(n ast.Node) bool {
			has = has || isText(p, n, `'\''`)
			return true
		})
		return has
	})
}

func functions(tr *tree, match func(*part, *ast.FuncDecl) bool) result {
	var found []string
	tr.each(func(p *part, n ast.Node) {
		if f, ok := n.(*ast.FuncDecl); ok && f.Body != nil && match(p, f) {
			found = append(found, tr.at(p, f.Pos())+" "+f.Name.Name)
		}
	})
	return listOf(found)
}

// uses tells whether f refers to the function or method name of the package pkg.
func uses(p *part, f *ast.FuncDecl, pkg, name string) bool {
	has := false
	ast.Inspect(f, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			o := p.info.Uses[id]
			has = has || o != nil && o.Pkg() != nil && o.Pkg().Path() == pkg && o.Name() == name
		}
		return true
	})
	return has
}

// strictJSON counts the packages that walk JSON by hand, to refuse what could be
// understood in two ways.
func strictJSON(tr *tree) result {
	return packages(tr, func(p *part) bool { return usedBy(p, "encoding/json", "Token") })
}

// atomicWriters counts the packages that write a file beside another and rename it.
func atomicWriters(tr *tree) result {
	return packages(tr, func(p *part) bool { return usedBy(p, "os", "CreateTemp") && usedBy(p, "os", "Rename") })
}

func packages(tr *tree, match func(*part) bool) result {
	var found []string
	for _, p := range tr.packages {
		if match(p) {
			found = append(found, p.name)
		}
	}
	return listOf(found)
}

// usedBy tells whether p refers to the function or method name of the package pkg.
func usedBy(p *part, pkg, name string) bool {
	for _, o := range p.info.Uses {
		if _, ok := o.(*types.Func); ok && o.Pkg() != nil && o.Pkg().Path() == pkg && o.Name() == name {
			return true
		}
	}
	return false
}

// recordStores counts the functions that return what is in a folder which may not be
// there yet: records, one a file.
func recordStores(tr *tree) result {
	return functions(tr, func(p *part, f *ast.FuncDecl) bool {
		if r := p.info.Defs[f.Name].Type().(*types.Signature).Results(); r.Len() == 0 {
			return false
		} else if _, ok := r.At(0).Type().(*types.Slice); !ok {
			return false
		}
		return uses(p, f, "os", "ReadDir") && uses(p, f, "io/fs", "ErrNotExist")
	})
}

// optionFiles counts the files that know an option by name, for one that is as simple
// as an option can be.
func optionFiles(tr *tree) result {
	files := map[string]bool{}
	tr.each(func(p *part, n ast.Node) {
		id, ok := n.(*ast.Ident)
		if ok && id.Name == "NoAttestation" || isText(p, n, "no-attestation") {
			files[p.name+"/"+tr.file(n.Pos())] = true
		}
	})
	return listOf(slices.Collect(maps.Keys(files)))
}

// clusters counts the structs that hold a cluster's address and authorities.
func clusters(tr *tree) result {
	var found []string
	for _, p := range tr.packages {
		for _, n := range p.named() {
			s, ok := n.Type().Underlying().(*types.Struct)
			if !ok {
				continue
			}
			var server, authorities bool
			for f := range s.Fields() {
				server = server || f.Name() == "Server"
				authorities = authorities || f.Name() == "CAData" || f.Name() == "CertificateAuthorityData"
			}
			if server && authorities {
				found = append(found, tr.at(p, n.Pos())+" "+n.Name())
			}
		}
	}
	return listOf(found)
}

func untestedScreens(tr *tree) result {
	var found []string
	for _, p := range tr.packages {
		if path.Dir(p.name) == "ui/tui/screen" && p.tests == 0 {
			found = append(found, p.name)
		}
	}
	return listOf(found)
}
