//go:build unix

package desktop

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/test/poll"
)

func TestSay(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "said")
	script := "#!/bin/sh\nprintf '%s|' \"$@\" >>'" + file + ".new'; mv '" + file + ".new' '" + file + "'\n"
	if err := os.WriteFile(filepath.Join(dir, "notify-send"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	env := map[string]string{"WAYLAND_DISPLAY": "wayland-0"}
	n := New(func(k string) string { return env[k] })
	n.Say(`touch "<b>-o" & go on`)
	const want = `--app-name=kubehsm|--|kubehsm|touch "&lt;b&gt;-o" &amp; go on|`
	said := func() string { b, _ := os.ReadFile(file); return string(b) } // no file at first
	poll.Until(t, "it is told", func() bool { return said() == want })
	before := n.last
	n.Say("so soon")
	if n.last != before {
		t.Error("a second one is shown at once")
	}
	if n := New(func(string) string { return "" }); n.program != "" {
		t.Errorf("%s would be run without a desktop", n.program)
	}
}
