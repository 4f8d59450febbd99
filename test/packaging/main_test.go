package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/cli"
)

// TestWrite: every command that help shows has a page with all its parts, and nothing else has one.
func TestWrite(t *testing.T) {
	t.Chdir("../..") // the Makefile and goreleaser.yaml run here
	dir := filepath.Join(t.TempDir(), "out")
	must.OK(t, write(dir))
	wanted := map[string]*cobra.Command{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		wanted[strings.ReplaceAll(c.CommandPath(), " ", "-")+".1.gz"] = c
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Runnable() {
				walk(sub)
			}
		}
	}
	walk((&cli.Program{Args: []string{"kubehsm"}, Getenv: func(string) string { return "" }}).Command())
	pages, err := os.ReadDir(filepath.Join(dir, "man"))
	must.OK(t, err)
	for _, p := range pages {
		c := wanted[p.Name()]
		delete(wanted, p.Name())
		if c == nil {
			if !strings.HasPrefix(p.Name(), "kubehsm-completion") { // cobra's own
				t.Errorf("%s is for no command", p.Name())
			}
			continue
		}
		text := unzip(t, filepath.Join(dir, "man", p.Name()))
		parts := []string{"NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"}
		if len(cli.Files(c)) == 0 { // the command works without the files and variables of kubehsm
			parts = slices.Concat(parts[:5], parts[7:])
		}
		for _, part := range parts {
			if !strings.Contains(text, "\n.SH \""+part+"\"\n") {
				t.Errorf("%s has no %s", p.Name(), part)
			}
		}
		for _, wrong := range []string{"(default 0", `(default "")`, "cluster\\-progress", "`"} {
			if strings.Contains(text, wrong) {
				t.Errorf("%s shows %q", p.Name(), wrong)
			}
		}
	}
	for name := range wanted {
		t.Errorf("there is no %s", name)
	}
	if out, err := exec.Command("bash", "-n",
		filepath.Join(dir, "completions", "kubehsm.bash")).CombinedOutput(); err != nil {
		t.Errorf("bash does not understand its completions: %v, %s", err, out)
	}
	for _, name := range []string{"completions/_kubehsm", "completions/kubehsm.fish", "completions/kubehsm.ps1",
		"kubehsm-agent.service"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("there is no %s: %v", name, err)
		}
	}
	others, err := os.ReadFile(filepath.Join(dir, "THIRD-PARTY"))
	must.OK(t, err)
	for _, of := range []string{"The Go standard library: LICENSE", "github.com/spf13/cobra v", "golang.org/x/sys v",
		"github.com/miekg/pkcs11 v"} {
		if !bytes.Contains(others, []byte("\n"+of)) {
			t.Errorf("THIRD-PARTY does not name %s", of)
		}
	}
}

func unzip(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must.OK(t, err)
	z, err := gzip.NewReader(bytes.NewReader(b))
	must.OK(t, err)
	text, err := io.ReadAll(z)
	must.OK(t, errors.Join(err, z.Close()))
	return string(text)
}
