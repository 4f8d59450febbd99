package provider

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/test/need"
)

// certificateError is why there is no certificate for a configuration.
func certificateError(t *testing.T, config map[string]string) string {
	t.Helper()
	p, err := NewFactory(Options{Stderr: io.Discard})("https://x", config, nil)
	if err == nil {
		_, err = p.(*provider).leaf.get(t.Context())
	}
	if err == nil {
		t.Fatal("no error")
	}
	return err.Error()
}

// allocated tells how many bytes f had allocated.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestAnswerIsBounded: what a signer writes beyond an answer's size is not kept,
// and ends it.
func TestAnswerIsBounded(t *testing.T) {
	var over error
	l := limited{most: wire.MaxAnswer, over: func(err error) { over = err }}
	n, err := io.Copy(&l, io.LimitReader(nothing{}, large))
	if err == nil || err != over || n > wire.MaxAnswer || l.kept.Len() > wire.MaxAnswer {
		t.Fatalf("%d bytes taken and %d kept, error %v, ended for %v", n, l.kept.Len(), err, over)
	}
	for _, trouble := range []string{"large", "endless"} { // the first fails where the second would not end
		ok := t.Run(trouble, func(t *testing.T) {
			jane := newAuthority(t).person("jane", newKey(t, "ecdsa-p256"))
			jane.write(trouble, []byte("certificate"))
			var says string
			kept := allocated(func() { says = certificateError(t, jane.config()) })
			if !strings.Contains(says, "it was ended: its answer is longer than 1048576 bytes") {
				t.Errorf("error %s", says)
			}
			if kept > large/4 {
				t.Errorf("%d bytes were allocated for it", kept)
			}
		})
		if !ok {
			return
		}
	}
}

// TestStartTroubles: programs that cannot be started are said with the reason,
// and their names once.
func TestStartTroubles(t *testing.T) {
	jane := newAuthority(t).person("jane", newKey(t, "ecdsa-p256"))
	none := filepath.Join(jane.dir, "no-such-program")
	if says := certificateError(t, jane.config("pathExec", none)); strings.Count(says, filepath.Base(none)) != 1 ||
		!strings.Contains(says, "it could not be started: ") {
		t.Errorf("a program that is not there: %s", says)
	}
	if runtime.GOOS == "windows" {
		return // Windows has other words for this error
	}
	says := certificateError(t, jane.config("more", strings.Repeat("x", 3<<20)))
	if len(says) > 1000 || !strings.Contains(says, "shorten the auth provider's config in the kubeconfig") {
		t.Errorf("3 MB of configuration: %.1000s", says)
	}
	jane.wantRuns(0, 0)
}

// TestOutputIsHeld: the signer has ended, and a program that it started has not.
func TestOutputIsHeld(t *testing.T) {
	t.Parallel()
	need.Program(t, "sleep")
	jane := newAuthority(t).person("jane", newKey(t, "ecdsa-p256"))
	jane.write("leave", []byte("certificate"))
	says := certificateError(t, jane.config())
	b, err := os.ReadFile(filepath.Join(jane.dir, "left"))
	check(t, err)
	pid, err := strconv.Atoi(string(b))
	check(t, err)
	left, err := os.FindProcess(pid)
	check(t, err)
	t.Cleanup(func() {
		if err := left.Kill(); err != nil {
			t.Error(err)
		}
	})
	if !strings.Contains(says, "a program that it started still holds its output") {
		t.Errorf("error %s", says)
	}
}

// TestNamesAreQuoted: a kubeconfig's names reach no terminal as they are.
func TestNamesAreQuoted(t *testing.T) {
	const evil = "\x1b[2J\u202e\n\x07"
	dir := t.TempDir()
	for name, config := range map[string]map[string]string{
		"a program that is not there":     {"pathExec": dir + "/" + evil},
		"a program in the working folder": {"pathExec": "./" + evil},
		"a program not on PATH":           {"pathExec": evil},
		"a long name of a program":        {"pathExec": dir + "/" + strings.Repeat(evil, 3000)},
		"another key":                     {"pathExec": dir + "/none", evil: evil},
	} {
		says := certificateError(t, config)
		if strings.ContainsAny(says, "\x1b\u202e\n\x07") {
			t.Errorf("%s: %q", name, says)
		}
		if len(says) > 5000 {
			t.Errorf("%s: %d bytes of error", name, len(says))
		}
	}
}
