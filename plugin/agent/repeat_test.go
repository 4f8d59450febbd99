package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
)

// TestRepeats: a cause that comes again and again is a line with a count, other
// causes are lines of their own, and nothing is lost.
func TestRepeats(t *testing.T) {
	var out bytes.Buffer
	h := newRepeats(slog.NewTextHandler(&out, nil))
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	say := func(after time.Duration, message string, attrs ...any) {
		r := slog.NewRecord(begin.Add(after), slog.LevelInfo, message, 0)
		r.Add(attrs...)
		check(t, h.WithAttrs([]slog.Attr{slog.Int("pid", 7)}).Handle(context.Background(), r))
	}
	lines := func() []string {
		s := strings.TrimSpace(out.String())
		out.Reset()
		return strings.Split(s, "\n")
	}
	for i := range 1000 {
		say(time.Duration(i)*time.Millisecond, "upstream", "enrollment", "prod", "error", fmt.Errorf("read tcp 127.0.0.1:%d: reset", 40000+i))
	}
	say(time.Second, "upstream", "enrollment", "dev", "error", errors.New("read tcp 127.0.0.1:1: reset"))
	if got := lines(); len(got) != 2 || !strings.Contains(got[0], ":40000: reset") || !strings.Contains(got[1], "enrollment=dev") {
		t.Fatalf("%q", got)
	}
	check(t, h.flush(begin.Add(repeatWindow/2)))
	if out.Len() > 0 {
		t.Errorf("counted too soon: %s", out.String())
	}
	say(repeatWindow, "upstream", "enrollment", "prod", "error", errors.New("read tcp 127.0.0.1:1: reset"))
	if got := lines(); len(got) != 2 || !strings.Contains(got[0], ":40999: reset") || !strings.Contains(got[0], "times=999") || !strings.Contains(got[0], "pid=7") || strings.Contains(got[1], "times") {
		t.Errorf("%q", got)
	}
	for i := range 4 * maxCauses {
		say(2*repeatWindow, strings.Repeat("x", i+1))
	}
	check(t, h.flush(begin.Add(4*repeatWindow)))
	if got := lines(); len(got) != maxCauses+2 || !strings.Contains(got[len(got)-1], fmt.Sprintf("times=%d", 3*maxCauses-1)) {
		t.Errorf("%d lines; the last is %.100s", len(got), got[len(got)-1])
	}
}

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
