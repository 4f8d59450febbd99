package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is what `go list` tells of one.
type module struct {
	Path, Version, Dir string
	Main               bool
}

// platforms are those that packages are made for: what is linked differs.
var platforms = [][]string{{"GOOS=linux", "CGO_ENABLED=1"}, {"GOOS=windows", "CGO_ENABLED=0"},
	{"GOOS=darwin", "CGO_ENABLED=0"}}

// linked lists the modules that are part of the program on any platform.
func linked() ([]module, error) {
	found := map[string]module{}
	for _, platform := range platforms {
		cmd := exec.Command("go", "list", "-deps", "-json=Module", ".")
		cmd.Env, cmd.Stderr = append(os.Environ(), platform...), os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", platform[0], err)
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct{ Module *module }
			if err := d.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if p.Module != nil && !p.Module.Main { // the standard library has none
				found[p.Module.Path] = *p.Module
			}
		}
	}
	var all []module
	for _, m := range found {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

// legal are the names of files with a licence, or with what it wants repeated.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licences is the text that must go along with the program: what the licences
// of the modules in it, and of Go's library, want repeated.
func licences() ([]byte, error) {
	modules, err := linked()
	if err != nil {
		return nil, err
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	modules = append([]module{{Path: "The Go standard library", Dir: strings.TrimSpace(string(goroot))}}, modules...)
	var b bytes.Buffer
	b.WriteString("kubehsm is licensed under the Apache License, version 2.0: see LICENSE.\nIt is made of these works too, whose authors want this said.\n")
	for _, m := range modules {
		files, err := os.ReadDir(m.Dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		said := false
		for _, f := range files {
			if !f.Type().IsRegular() || !legal.MatchString(f.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(m.Dir, f.Name()))
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 79), strings.TrimSpace(m.Path+" "+m.Version), f.Name(),
				bytes.TrimSpace(text))
			said = true
		}
		if !said {
			return nil, fmt.Errorf("%s %s has no licence", m.Path, m.Version)
		}
	}
	return b.Bytes(), nil
}
