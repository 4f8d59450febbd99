// Package need says what a test needs of the machine. A missing part is a named
// skip on a developer's machine and a failure where CI=true, so that a test
// never passes by not running.
package need

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

// Program returns the path of the program name on PATH, or skips (fails under
// CI=true) the test.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, "program "+name+" is not installed")
	}
	return path
}

// File returns the first of paths that exists, or skips (fails under CI=true)
// the test.
func File(t testing.TB, paths ...string) string {
	t.Helper()
	for _, p := range paths {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	Missing(t, "none of these files exists: "+strings.Join(paths, ", "))
	return ""
}

// Missing ends the test because of reason: a skip, or a failure under CI=true.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("missing part: %s", reason)
	}
	t.Skipf("missing part: %s", reason)
}

// NoError ends the test if err is one.
func NoError(t testing.TB, err error) {
	t.Helper()
	must.OK(t, err)
}
