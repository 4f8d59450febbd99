//go:build linux

package clipboard

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

// TestWrite has a program of the test's own take the text: it gets it on
// standard input, and only where there is a desktop.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	got := filepath.Join(dir, "got")
	script := "#!/bin/sh\n[ \"$*\" = '-selection clipboard' ] && cat >" + got + "\n"
	must.OK(t, os.WriteFile(filepath.Join(dir, "xclip"), []byte(script), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	env := func(m map[string]string) func(string) string { return func(k string) string { return m[k] } }
	for _, none := range []map[string]string{{}, {"DISPLAY": ":0", "SSH_TTY": "/dev/pts/1"}} {
		must.OK(t, Write(context.Background(), env(none), "x"))
		if _, err := os.Stat(got); err == nil {
			t.Fatalf("%v: copied", none)
		}
	}
	must.OK(t, Write(context.Background(), env(map[string]string{"DISPLAY": ":0"}), "piv:serial=1"))
	if b, err := os.ReadFile(got); err != nil || string(b) != "piv:serial=1" {
		t.Errorf("%q, %v", b, err)
	}
}
