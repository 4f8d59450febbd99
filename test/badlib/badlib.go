// Package badlib makes PKCS#11 libraries that misbehave, for tests: each passes
// everything on to another library, but in the ways that it was made with ([Make]) and
// those that a test commands it now ([Do]), or with lies that a seed picks ([Liar]).
//
// A way is an action, or an action, a hyphen and a point. The points are list
// (C_GetSlotList), token (C_GetTokenInfo), session (C_OpenSession), state
// (C_GetSessionInfo), login (C_Login), find (C_FindObjectsInit) and sign (C_Sign). An
// action without a point happens in C_Initialize. The actions:
//
//   - crash: SIGSEGV; abort: SIGABRT; exit: the process ends with exit code 0
//   - hang: does not return before the way is taken back; slow: takes three seconds more
//   - fail: returns CKR_DEVICE_ERROR
//
// These ways have no point:
//
//   - gone: the token has left: C_GetSlotList does not show it, all else says CKR_TOKEN_NOT_PRESENT
//   - lose-sessions: all sessions and logins are lost, once
//   - lie-list, lie-find, lie-attributes, lie-sign: the length in the answer is a million more than there is
//   - other-lists: C_GetFunctionList returns another list at each call
//   - request: C_Initialize ends the process if the environment holds an external signer's request
//   - loud: C_Initialize writes to the terminal
//   - protected: the token says that it is write-protected, and opens no session to write
//   - no-writes: it opens none either, but does not say so before
//   - pad: the PIN is typed on the token, as which the one in [TypedPIN] counts
//
// Any other word is only a name.
package badlib

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/atomicfile"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

// Real is the environment variable with the path of the library that they pass
// everything on to.
const Real = "BAD_REAL"

// TypedPIN is the environment variable with the PIN that is typed on a PIN pad.
const TypedPIN = "BAD_PIN"

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

// Liar makes a library that lies, and returns its path.
func Liar(t testing.TB) string { return write(t, t.TempDir(), "liar", compiledLiar) }

// Do has the library at path behave in these ways, and those that it was made with, from
// its next call on. Without ways it goes back to those that it was made with.
func Do(t testing.TB, path string, ways ...string) {
	t.Helper()
	must.OK(t, atomicfile.Replace(path+".ways", ".ways-*", []byte(strings.Join(ways, " "))))
}

// Make makes a library for each way, and returns their paths by way.
func Make(t testing.TB, ways ...string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	paths := map[string]string{}
	for _, way := range ways {
		paths[way] = write(t, dir, way, compiled)
	}
	return paths
}

// The libraries, each compiled once in a process.
var (
	compiled     = sync.OnceValues(func() ([]byte, error) { return compile(source) })
	compiledLiar = sync.OnceValues(func() ([]byte, error) { return compile(liar) })
)

func write(t testing.TB, dir, name string, library func() ([]byte, error)) string {
	t.Helper()
	need.Program(t, "cc")
	b, err := library()
	must.OK(t, err)
	path := filepath.Join(dir, name+".so")
	must.OK(t, os.WriteFile(path, b, 0o600))
	return path
}

func compile(source []byte) ([]byte, error) {
	headers, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/miekg/pkcs11").Output()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "badlib")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "library")
	cc := exec.Command("cc", "-shared", "-fPIC", "-I", strings.TrimSpace(string(headers)), "-o", path, "-x", "c", "-",
		"-ldl", "-pthread")
	cc.Stdin = bytes.NewReader(source)
	if out, err := cc.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cc: %w\n%s", err, out)
	}
	return os.ReadFile(path)
}
