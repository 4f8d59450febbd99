package layout

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	inTicks  = regexp.MustCompile("`([^`\n]+)`(:? )?")
	pathName = regexp.MustCompile(`^[a-z][\w.-]*(/[\w.-]+)+$|^[\w-]+\.(go|md)$`)
	codeName = regexp.MustCompile(`^[a-z]\w*(\.\w+){1,2}$`)
)

// TestArchitectureIsTrue: in docs/architecture.md, docs/glossary.md, the pages of docs/decisions about this code,
// and CONTRIBUTING.md each path in backticks exists, and each package.Name or package.Type.Method is in the code: in
// the file that stands right before it, if one does. Other code in backticks (commands, variables) is not looked at.
func TestArchitectureIsTrue(t *testing.T) {
	var text strings.Builder
	for _, page := range files(t, ".github/CONTRIBUTING.md", "docs/architecture.md", "docs/glossary.md", "docs/decisions/*.md") {
		if path.Base(page) != "keps.md" { // names fields of Kubernetes' proposals
			text.WriteString(read(t, page))
		}
	}
	names, file, end := 0, "", 0 // end is where a name that belongs to file begins
	for _, at := range inTicks.FindAllStringSubmatchIndex(text.String(), -1) {
		name := text.String()[at[2]:at[3]]
		if at[0] != end {
			file = ""
		}
		switch {
		case pathName.MatchString(name):
			if _, err := os.Stat(filepath.Join(top, filepath.FromSlash(name))); err != nil {
				t.Errorf("there is no %s", name)
			}
			if strings.HasSuffix(name, ".go") {
				file, end = name, at[1]
			}
		case codeName.MatchString(name):
			names++
			pack, rest, _ := strings.Cut(name, ".")
			var where []string
			for _, s := range sources(t) {
				if s.Name.Name == pack && declares(s.File, rest) {
					where = append(where, s.path)
				}
			}
			if len(where) == 0 {
				t.Errorf("%s is not in the code", name)
			} else if file != "" && !slices.Contains(where, file) {
				t.Errorf("%s is not in %s: it is in %s", name, file, strings.Join(where, ", "))
			}
			file = ""
		}
	}
	if names < 40 {
		t.Errorf("only %d names were found", names)
	}
}

// declares reports whether f declares name, Type.method or Type.field.
func declares(f *ast.File, name string) bool {
	first, member, _ := strings.Cut(name, ".")
	found := false
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			full := d.Name.Name
			if d.Recv != nil {
				full = strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*") + "." + full
			}
			found = found || full == name
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					found = found || slices.ContainsFunc(s.Names, func(id *ast.Ident) bool { return id.Name == name })
				case *ast.TypeSpec:
					found = found || s.Name.Name == first && (member == "" || has(s.Type, member))
				}
			}
		}
	}
	return found
}

// has reports whether a struct or interface has a field or method.
func has(e ast.Expr, member string) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		f, ok := n.(*ast.Field)
		found = found || ok && slices.ContainsFunc(f.Names, func(id *ast.Ident) bool { return id.Name == member })
		return true
	})
	return found
}

// figures are what docs/security.md promises in numbers, and the constants that keep it.
var figures = []struct {
	words          string
	pack, constant string
	want           int64
}{
	{"pauses for 30 seconds", "plugin/agent/consents", "grantPause", int64(30 * time.Second)},
	{"after ten minutes at the latest", "plugin/agent/consents", "grantLife", int64(10 * time.Minute)},
	{"A no holds for five seconds", "plugin/agent/consents", "refusalPause", int64(5 * time.Second)},
	{"does not arrive within 30 seconds", "plugin/bridge", "bodyTimeout", int64(30 * time.Second)},
	{"no space within 30 seconds", "plugin/bridge", "bodyTimeout", int64(30 * time.Second)},
	{"At most 64 MiB of bodies", "plugin/bridge", "maxHeld", 64 << 20},
	{"A body of more than 3 MiB", "plugin/consent/body", "Limit", 3 << 20},
	{"at most 10 KiB", "plugin/enrollment", "maxSigned", 10 << 10},
	{"for ten years", "plugin/bridge/loopback", "caLife", int64(10 * 365 * 24 * time.Hour)},
	{"Eight files", "plugin/audit", "keep", 7}, // beside the one that is written
	{"of 4 MiB are kept", "plugin/audit", "maxSize", 4 << 20},
	{"after 30 minutes without use", "plugin/settings", "DefaultIdle", int64(30 * time.Minute)},
	{"after 8 hours in any case", "plugin/settings", "DefaultMax", int64(8 * time.Hour)},
	{"for at most a second", "plugin/agent/token", "stateTimeout", int64(time.Second)},
	{"values of 1 MiB", "hsm/pkcs11", "maxValue", 1 << 20},
	{"4096 slots", "hsm/pkcs11", "maxReaders", 4096},
	{"At most 500 requests by one line", "plugin/judge", "MaxWaiting", 500},
}

// TestFiguresAreTrue: a number that docs/security.md promises is the one in the program.
func TestFiguresAreTrue(t *testing.T) {
	text := strings.Join(strings.Fields(read(t, "docs/security.md")), " ")
	for _, f := range figures {
		if !strings.Contains(text, f.words) {
			t.Errorf("docs/security.md does not say %q", f.words)
		}
		c, ok := constants(t, f.pack).Lookup(f.constant).(*types.Const)
		if !ok {
			t.Errorf("%s has no constant %s", f.pack, f.constant)
			continue
		}
		if got, exact := constant.Int64Val(constant.ToInt(c.Val())); !exact || got != f.want {
			t.Errorf("%q: %s.%s is %s, want %d", f.words, f.pack, f.constant, c.Val(), f.want)
		}
	}
}

// constants returns what a package declares, of which the constants are certain: of what it imports only the units of
// time are known, and bodies are not read.
func constants(t *testing.T, part string) *types.Scope {
	t.Helper()
	var all []*ast.File
	for _, s := range sources(t) {
		if s.part == part {
			all = append(all, s.File)
		}
	}
	conf := types.Config{Importer: onlyTime{}, IgnoreFuncBodies: true, FakeImportC: true, Error: func(error) {}}
	p, _ := conf.Check(part, fset, all, nil)
	return p.Scope()
}

// onlyTime imports a package time that has its units.
type onlyTime struct{}

func (onlyTime) Import(name string) (*types.Package, error) {
	if name != "time" {
		return nil, os.ErrNotExist
	}
	f, err := parser.ParseFile(fset, "time.go", `package time
		type Duration int64
		const (Millisecond Duration = 1e6; Second = 1e3*Millisecond; Minute = 60*Second; Hour = 60*Minute)`, 0)
	if err != nil {
		return nil, err
	}
	return new(types.Config).Check("time", fset, []*ast.File{f}, nil)
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// TestLinksLead: a link of a page to this repository leads to a file that is there, and to a heading of it.
func TestLinksLead(t *testing.T) {
	found := 0
	for _, page := range files(t, "README.md", "docs/*.md", ".github/*.md") {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			found++
			target := page
			if to != "" {
				target = path.Join(path.Dir(page), to)
			}
			if _, err := os.Stat(filepath.Join(top, target)); err != nil {
				t.Errorf("%s: %s leads nowhere", page, m[1])
			} else if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: %s has no heading %q", page, target, anchor)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d links were found", found)
	}
}

// anchors are the names by which the headings of a page are linked to.
func anchors(page string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		all = append(all, strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}
