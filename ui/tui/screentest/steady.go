package screentest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"testing"
)

// folder makes a folder for a world that is removed with the test. Its name has the
// same length in every run, so that frames that show it differ in nothing else, and it is
// short enough for a socket.
func folder(t testing.TB) string {
	t.Helper()
	dir := fmt.Sprintf("/tmp/khsm-%08x", rand.Uint32())
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// unsteady are what differs from run to run, and what stands in its place: as wide, so
// that lines break where they did.
var unsteady = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`/tmp/khsm-[0-9a-f]{8}`), "/home/jane/a-world"},
	{regexp.MustCompile(`127\.0\.0\.1:\d{5}`), "127.0.0.1:40123"},
}

// Steady is a frame with what differs from run to run replaced by what does not: the
// folder of the world and the ports of its servers.
func Steady(frame string) string {
	for _, u := range unsteady {
		frame = u.what.ReplaceAllStringFunc(frame, func(s string) string {
			if len(s) != len(u.as) { // a port below 10000
				return s
			}
			return u.as
		})
	}
	return frame
}
