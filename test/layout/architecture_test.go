package layout

import (
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	inTicks  = regexp.MustCompile("`([^`\n]+)`(:? )?")
	pathName = regexp.MustCompile(`^[a-z][\w.-]*(/[\w.-]+)+$|^[\w-]+\.(go|md)$`)
	codeName = regexp.MustCompile(`^[a-z]\w*(\.\w+){1,2}$`)
)

// TestArchitectureIsTrue: in docs/architecture.md, docs/glossary.md, the pages of
// docs/decisions about this code, and CONTRIBUTING.md each path in backticks exists, and each package.Name or package.Type.Method is in the code: in the file
// that stands right before it, if one does. Other code in backticks (commands, variables) is
// not looked at.
func TestArchitectureIsTrue(t *testing.T) {
	top := filepath.Join("..", "..")
	pages := []string{".github/CONTRIBUTING.md", "docs/architecture.md", "docs/glossary.md"}
	decisions, err := filepath.Glob(filepath.Join(top, "docs", "decisions", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range decisions {
		if name := filepath.Base(page); name != "keps.md" { // names fields of Kubernetes' proposals
			pages = append(pages, "docs/decisions/"+name)
		}
	}
	var text []byte
	for _, page := range pages {
		b, err := os.ReadFile(filepath.Join(top, page))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	tr := product(t)
	names, file, end := 0, "", 0 // end is where a name that belongs to file begins
	for _, at := range inTicks.FindAllSubmatchIndex(text, -1) {
		name := string(text[at[2]:at[3]])
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
			where := tr.declaredIn(name)
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

// declaredIn returns the files, by their paths in the module, that declare package.Name,
// package.Type.Method or package.Type.Field. Several packages may have one name.
func (tr *tree) declaredIn(name string) (files []string) {
	parts := strings.Split(name, ".")
	for _, p := range tr.packages {
		if p.types.Name() != parts[0] {
			continue
		}
		o := p.types.Scope().Lookup(parts[1])
		if o != nil && len(parts) == 3 {
			o, _, _ = types.LookupFieldOrMethod(o.Type(), true, p.types, parts[2])
		}
		if o == nil {
			continue
		}
		file := tr.file(o.Pos())
		if p.name != "main" {
			file = p.name + "/" + file
		}
		files = append(files, file)
	}
	return files
}
