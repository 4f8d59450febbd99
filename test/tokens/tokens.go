// Package tokens keeps what the contract suite found out about each token, one
// file for each, and makes the table docs/tokens.md of it. The files in virtual
// are written by the suite's own runs over tokens in software, which fail where
// a file differs from what they see; those in physical are [Report]s of
// `make hardware-check` and `make hardware-suite` (see the package hardware).
package tokens

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
)

// The kinds of tokens, each a folder.
const (
	Virtual     = "virtual"
	Personality = "personality" // kinds of PIV cards, as virtual ones
	Physical    = "physical"
)

// writeVar, if "write", has [Record] write the files instead of comparing.
const writeVar = "KUBEHSM_TOKENS"

// Column is what is known of one token.
type Column struct {
	// Title heads the column.
	Title string `json:"title"`
	// Driver is the URI scheme of the driver, and for PKCS#11 the module.
	Driver string `json:"driver"`
	// About says in a sentence what is special to a kind of card.
	About      string                           `json:"about,omitempty"`
	Parts      map[string]hsmtest.Result        `json:"parts"`
	Algorithms map[hsm.Algorithm]hsmtest.Result `json:"algorithms"`
}

// NewColumn makes one of the suite's results.
func NewColumn(title, driver string, r hsmtest.Results) Column {
	return Column{Title: title, Driver: driver, Parts: r.Parts, Algorithms: r.Algorithms}
}

// Root finds the top of the module above the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory")
		}
	}
	return "", err
}

// Path is the file of the token name of the kind.
func Path(root, kind, name string) string {
	return filepath.Join(root, "test", "tokens", kind, name+".json")
}

// Record fails t if the file of the virtual token name is not what the suite
// has just seen. With KUBEHSM_TOKENS=write it writes the file instead. Partial
// results (go test -run) are not compared.
func Record(t *testing.T, name, title, driver string, r hsmtest.Results) {
	t.Helper()
	record(t, Virtual, name, NewColumn(title, driver, r), r.Complete)
}

// RecordKind is Record for a kind of PIV card that a virtual one plays.
func RecordKind(t *testing.T, title, about string, r hsmtest.Results) {
	t.Helper()
	c := NewColumn(title, "piv", r)
	c.About = about
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(title)), "-")
	record(t, Personality, strings.ReplaceAll(name, "--", "-"), c, r.Complete)
}

func record(t *testing.T, kind, name string, c Column, complete bool) {
	t.Helper()
	if !complete {
		return
	}
	root, err := Root()
	must.OK(t, err)
	want, err := json.MarshalIndent(c, "", "  ")
	must.OK(t, err)
	want = append(want, '\n')
	path := Path(root, kind, name)
	if os.Getenv(writeVar) == "write" {
		must.OK(t, os.WriteFile(path, want, 0o644))
		return
	}
	have, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(have, want) {
		t.Errorf("%s is not what the suite has seen (%v); if that is meant, run the test with %s=write and then `go run ./test/tokens/table`\n%s",
			path, err, writeVar, want)
	}
}

// read returns what the files of a kind hold, by name.
func read[T Column | Report](root, kind string) ([]T, error) {
	paths, err := filepath.Glob(Path(root, kind, "*"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	all := make([]T, len(paths))
	for i, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b, &all[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return all, nil
}
