//go:build unix

package host

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/desktop"
	"github.com/kubehsm/kubehsm/test/poll"
)

// fakeDesktop puts a notify-send into PATH that writes down what it is told.
func fakeDesktop(t *testing.T) (said func() string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "said")
	script := "#!/bin/sh\nprintf '%s|' \"$@\" >>'" + file + ".new'; mv '" + file + ".new' '" + file + "'\n"
	check(t, os.WriteFile(filepath.Join(dir, "notify-send"), []byte(script), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":77")
	return func() string {
		b, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(b)
	}
}

// TestDesktopHearsOfARemoval, and of a reconnect that wants a person, as no
// terminal is there.
func TestDesktopHearsOfARemoval(t *testing.T) {
	said := fakeDesktop(t)
	r := newRig(t, rigOptions{})
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.mustAgent(func(a *agent) { a.locks.token(a.tokens.Of(r.e.Key), "removed") })
	poll.Until(t, "it is told", func() bool {
		return strings.Contains(said(),
			"kubehsm|The token was removed: prod is locked.|")
	})
}

func TestDesktopHearsOfATouch(t *testing.T) {
	said := fakeDesktop(t)
	for pad, words := range map[hsm.PINKind]string{"": "waits for your touch", hsm.UserPIN: "reader waits for your PIN"} {
		done := nobody(desktop.New(os.Getenv), "prod").Touch(context.Background(), hsm.TouchPrompt{Pad: pad})
		poll.Until(t, "it is told", func() bool { return strings.Contains(said(), words) })
		done()
	}
}
