package logfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

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
		say(time.Duration(i)*time.Millisecond, "upstream", "enrollment", "prod", "error",
			fmt.Errorf("read tcp 127.0.0.1:%d: reset", 40000+i))
	}
	say(time.Second, "upstream", "enrollment", "dev", "error", errors.New("read tcp 127.0.0.1:1: reset"))
	if got := lines(); len(got) != 2 || !strings.Contains(got[0], ":40000: reset") ||
		!strings.Contains(got[1], "enrollment=dev") {
		t.Fatalf("%q", got)
	}
	check(t, h.flush(begin.Add(repeatWindow/2)))
	if out.Len() > 0 {
		t.Errorf("counted too soon: %s", out.String())
	}
	say(repeatWindow, "upstream", "enrollment", "prod", "error", errors.New("read tcp 127.0.0.1:1: reset"))
	if got := lines(); len(got) != 2 || !strings.Contains(got[0], ":40999: reset") ||
		!strings.Contains(got[0], "times=999") || !strings.Contains(got[0], "pid=7") || strings.Contains(got[1], "times") {
		t.Errorf("%q", got)
	}
	for i := range 4 * maxCauses {
		say(2*repeatWindow, strings.Repeat("x", i+1))
	}
	check(t, h.flush(begin.Add(4*repeatWindow)))
	if got := lines(); len(got) != maxCauses+2 ||
		!strings.Contains(got[len(got)-1], fmt.Sprintf("times=%d", 3*maxCauses-1)) {
		t.Errorf("%d lines; the last is %.100s", len(got), got[len(got)-1])
	}
}

// TestLogRotates: a full file is moved away, and one old one is kept. At the end the counts
// are written.
func TestLogRotates(t *testing.T) {
	path := t.TempDir() + "/agent.log"
	l, err := Open(path)
	check(t, err)
	line := bytes.Repeat([]byte("x"), 100<<10)
	for range 25 {
		_, err := l.file.Write(line)
		check(t, err)
	}
	l.Logger().Info("refused")
	l.Logger().Info("refused")
	check(t, l.Close())
	b, err := os.ReadFile(path)
	check(t, err)
	if n := bytes.Count(b, []byte("msg=refused")); n != 2 {
		t.Errorf("%d lines of what was said twice", n)
	}
	for _, p := range []string{path, path + ".1"} {
		info, err := os.Stat(p)
		check(t, err)
		if info.Size() > maxLog || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %d bytes, %v", p, info.Size(), info.Mode())
		}
	}
}
