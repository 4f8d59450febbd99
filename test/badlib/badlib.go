// Package badlib makes PKCS#11 libraries that misbehave, for tests: each passes
// everything on to another library, but in one way of its own.
package badlib

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/need"
)

// Real is the environment variable with the path of the library that they pass
// everything on to.
const Real = "BAD_REAL"

// source says what ways there are.
//
//go:embed testdata/bad.c
var source []byte

// Make compiles a library for each way, and returns their paths by way.
func Make(t testing.TB, ways ...string) map[string]string {
	t.Helper()
	need.Program(t, "cc")
	headers, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/miekg/pkcs11").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	from := filepath.Join(dir, "bad.c")
	if err := os.WriteFile(from, source, 0o600); err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{}
	for _, way := range ways {
		paths[way] = filepath.Join(dir, way+".so")
		cc := exec.Command("cc", "-shared", "-fPIC", `-DWAY="`+way+`"`, "-I", strings.TrimSpace(string(headers)),
			"-o", paths[way], from, "-ldl")
		out, err := cc.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return paths
}
