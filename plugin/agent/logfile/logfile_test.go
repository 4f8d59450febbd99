package logfile

import (
	"bytes"
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

// TestLogRotates: a full file is moved away, and one old one is kept.
func TestLogRotates(t *testing.T) {
	path := t.TempDir() + "/agent.log"
	l, err := Open(path)
	check(t, err)
	line := bytes.Repeat([]byte("x"), 100<<10)
	for range 25 {
		_, err := l.Write(line)
		check(t, err)
	}
	l.Logger().Info("refused")
	check(t, l.Close())
	b, err := os.ReadFile(path)
	check(t, err)
	if !bytes.Contains(b, []byte("msg=refused")) {
		t.Errorf("no line of what was said in %.200s", b)
	}
	for _, p := range []string{path, path + ".1"} {
		info, err := os.Stat(p)
		check(t, err)
		if info.Size() > maxLog || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %d bytes, %v", p, info.Size(), info.Mode())
		}
	}
}
