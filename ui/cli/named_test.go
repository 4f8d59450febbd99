package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/test/must"
)

// named finds commands as hints, questions and documents name them: "kubehsm
// token pin change --token X".
var named = regexp.MustCompile("(?:^|[`\"$ (])kubehsm ((?:[a-z][a-z0-9-]*|--?[a-z][a-z-]*|[^\\s`\"\\\\]+)(?: [^`\"\\n\\\\]*)?)")

// TestNamedCommandsExist: a command that the program or its documents tell
// people to run is there, with the flags that are named.
func TestNamedCommandsExist(t *testing.T) {
	root := (&Program{Args: []string{"kubehsm"}, Getenv: func(string) string { return "" }}).Command()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == ".git" || name == "testdata" || name == ".demo" || name == ".cache" || name == "dist" ||
				name == "test" {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".md") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for n, line := range strings.Split(string(content), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "//") {
				continue
			}
			for _, m := range named.FindAllStringSubmatch(line, -1) {
				if why := unknown(root, strings.Fields(m[1])); why != "" {
					t.Errorf("%s:%d: kubehsm %s: %s", path, n+1, m[1], why)
				}
				found++
			}
		}
		return nil
	})
	must.OK(t, err)
	if found < 100 {
		t.Errorf("only %d commands found: is the pattern still right?", found)
	}
}

// unknown says what of a command line does not exist, "" if all does or if it
// is a sentence that begins with the program's name.
func unknown(root *cobra.Command, words []string) string {
	if !strings.HasPrefix(words[0], "-") && !topLevel(root, words[0]) {
		return "" // "kubehsm is …"
	}
	c, rest, err := root.Find(words)
	if err != nil {
		return err.Error()
	}
	if c.HasSubCommands() && c != root && len(rest) > 0 && verbName.MatchString(rest[0]) {
		return c.CommandPath() + " has no " + rest[0]
	}
	for _, w := range rest {
		name, isFlag := strings.CutPrefix(w, "--")
		if !isFlag {
			if w == "#" || w == "|" || w == "&&" || w == ";" {
				break
			}
			continue
		}
		name = flagName.FindString(name)
		if name != "" && name != "help" && name != "version" && c.Flags().Lookup(name) == nil &&
			c.InheritedFlags().Lookup(name) == nil {
			return c.CommandPath() + " has no flag --" + name
		}
	}
	return ""
}

var (
	verbName = regexp.MustCompile(`^[a-z][a-z-]+$`)
	flagName = regexp.MustCompile(`^[a-z][a-z-]*`)
)

func topLevel(root *cobra.Command, name string) bool {
	for _, c := range root.Commands() {
		if c.Name() == name {
			return true
		}
	}
	return false
}
