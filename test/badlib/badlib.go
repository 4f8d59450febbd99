// Package badlib makes PKCS#11 libraries that misbehave, for tests: each passes
// everything on to another library, but in one way of its own ([Make]), or with lies
// that a seed picks ([Liar]).
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

// liar says what lies there are.
//
//go:embed testdata/lie.c
var liar []byte

// The environment of a liar: the seed of its lies, which counts whenever it is set up,
// and a file to which each PIN that it is given adds a byte, u for the user's login and
// c for that before a use of a key.
const (
	LieSeed = "LIE_SEED"
	LieLog  = "LIE_LOG"
)

// Liar compiles a library that lies, and returns its path.
func Liar(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "liar.so")
	compile(t, liar, path, "liar")
	return path
}

// Make compiles a library for each way, and returns their paths by way.
func Make(t testing.TB, ways ...string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	paths := map[string]string{}
	for _, way := range ways {
		paths[way] = filepath.Join(dir, way+".so")
		compile(t, source, paths[way], way)
	}
	return paths
}

func compile(t testing.TB, source []byte, to, way string) {
	t.Helper()
	need.Program(t, "cc")
	headers, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/miekg/pkcs11").Output()
	if err != nil {
		t.Fatal(err)
	}
	from := to + ".c"
	if err := os.WriteFile(from, source, 0o600); err != nil {
		t.Fatal(err)
	}
	cc := exec.Command("cc", "-shared", "-fPIC", `-DWAY="`+way+`"`, "-I", strings.TrimSpace(string(headers)),
		"-o", to, from, "-ldl")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
