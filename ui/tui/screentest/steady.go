package screentest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

// folder makes a folder for a world that is removed with the test, in memory where it can:
// much of what a test waits for else is the disk. Its name has the same length in every run,
// so that frames that show it differ in nothing else, and it is short enough for a socket.
func folder(t testing.TB) string {
	t.Helper()
	var dir string
	err := os.ErrExist
	for errors.Is(err, os.ErrExist) {
		dir = fmt.Sprintf("/dev/shm/khsm-%04x", rand.Uint32()&0xffff)
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		dir = fmt.Sprintf("/tmp/khsm-%08x", rand.Uint32())
		err = os.Mkdir(dir, 0o700)
	}
	must.OK(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// unsteady has what differs from run to run, and what takes its place. Both are equally
// wide, so that lines break where they did.
var unsteady = []struct {
	what *regexp.Regexp
	as   string // text in its place; the last rune is repeated to the same width
}{
	{regexp.MustCompile(`/(tmp/khsm-[0-9a-f]{4}|dev/shm/khsm-)[0-9a-f]{4}`), "/home/jane/a-world"},
	{regexp.MustCompile(`127\.0\.0\.1:\d{5}`), "127.0.0.1:40123"},
	{regexp.MustCompile(`\d{5}/c/`), "40123/c/"}, // a dialog may cut the host off
	{regexp.MustCompile(certificate + `[A-Za-z0-9+/]+`), certificate + "A"},
}

var (
	// suffix is what the program makes up for a name.
	suffix = regexp.MustCompile(`([a-z]-[0-9a-f]{8}-)[0-9a-z]{13}`)
	// took is how long something took, and the space behind it.
	took = regexp.MustCompile(`✓ (\d+ms)((?:\x1b\[m)?)( +)`)
)

// certificate is how every certificate in PEM begins, in base64.
const certificate = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1J"

// Steady is a frame with what differs from run to run replaced by what does not: the
// folder of the world, the ports of its servers and their certificates, the ends of names
// that are made up, and how long something took.
func Steady(frame string) string {
	for _, u := range unsteady {
		frame = u.what.ReplaceAllStringFunc(frame, func(s string) string {
			return u.as + strings.Repeat(u.as[len(u.as)-1:], len(s)-len(u.as))
		})
	}
	frame = suffix.ReplaceAllString(frame, "${1}7x2kpqizui4mz")
	return took.ReplaceAllStringFunc(frame, func(s string) string {
		part := took.FindStringSubmatch(s)
		return "✓ 84ms" + part[2] + strings.Repeat(" ", len(part[1])+len(part[3])-len("84ms"))
	})
}
