package host

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
)

// TestLogOfManyRefusals: a program that is refused in a loop leaves few lines, and
// none of its requests is lost.
func TestLogOfManyRefusals(t *testing.T) {
	const n = 200
	r := newRig(t, rigOptions{})
	s := r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	c := r.http(s)
	for range n {
		resp, err := c.Get(r.ep.URL("other"))
		check(t, err)
		check(t, resp.Body.Close())
	}
	r.end()
	b, err := os.ReadFile(r.dirs.LogFile())
	check(t, err)
	lines, total := 0, 0
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, "msg=refused") {
			continue
		}
		times := 1
		if _, count, ok := strings.Cut(line, " times="); ok {
			times, err = strconv.Atoi(strings.TrimSpace(count))
			check(t, err)
		}
		lines, total = lines+1, total+times
	}
	if lines > n/10 || total != n { // two in ten seconds, however slow the machine
		t.Errorf("%d lines tell of %d requests:\n%s", lines, total, b)
	}
}
