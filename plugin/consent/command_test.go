//go:build !windows

package consent

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

// TestNamesOfPrograms: a program chooses its name, and forges no line of a
// question by it.
func TestNamesOfPrograms(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells it")
	}
	const script = `printf 'a\n\033[2Jb\n' >/proc/$$/comm && echo done && read x`
	c := exec.Command("sh", "-c", script)
	in, err := c.StdinPipe()
	check(t, err)
	out, err := c.StdoutPipe()
	check(t, err)
	check(t, c.Start())
	t.Cleanup(func() { _ = in.Close(); _ = c.Wait() }) // the script's code is that of read
	b := make([]byte, 4)
	_, err = io.ReadFull(out, b)
	check(t, err)
	name := CommandOf(c.Process.Pid)
	if name != `"a\n\x1b[2Jb"` && name != `"a\n\x1b[2Jb\n"` {
		t.Errorf("called %q", name)
	}
}

// TestLongNameOfAProgram: the kernel's name of a program may be cut; a script has its
// own name, not its interpreter's. What a program calls itself goes behind its file.
func TestLongNameOfAProgram(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells it")
	}
	const name = "kubectl-externalsigner-and-more"
	dir := t.TempDir()
	sh, err := exec.LookPath("sh")
	check(t, err)
	text, program, script := filepath.Join(dir, "text"), filepath.Join(dir, name), filepath.Join(dir, name+".sh")
	check(t, os.WriteFile(text, []byte("#!/bin/sh\nread x\necho started\nread x\n"), 0o700))
	for to, from := range map[string]string{program: sh, script: text} {
		// A file that this process wrote may be open for that in a child of it for a
		// moment, and cannot be started then.
		check(t, exec.Command("cp", from, to).Run())
	}
	for want, path := range map[string]string{name: program, name + ".sh": script, "sh": sh} {
		c := exec.Command(path)
		c.Args = []string{name[:maxComm] + "-as-it-says"} // a script's are its own
		in, err := c.StdinPipe()
		check(t, err)
		out, err := c.StdoutPipe()
		check(t, err)
		check(t, c.Start())
		t.Cleanup(func() { _ = in.Close(); _ = c.Process.Kill(); _ = c.Wait() })
		_, err = io.WriteString(in, "echo started\n")
		check(t, err)
		_, err = io.ReadFull(out, make([]byte, len("started\n"))) // by now the shell has its name and arguments
		check(t, err)
		if got := CommandOf(c.Process.Pid); got != want {
			t.Errorf("%s is called %q", path, got)
		}
	}
}

// TestProgramOnDisk: a program is its file, whatever it calls itself, and it is said if that
// file is not the one that runs.
func TestProgramOnDisk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells it")
	}
	sleep, err := exec.LookPath("sleep")
	check(t, err)
	for note, change := range map[string]func(path string) error{
		"":       func(string) error { return nil },
		removed:  os.Remove,
		replaced: func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o700)) },
		another: func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path+" (deleted)", nil, 0o700))
		},
	} {
		path := filepath.Join(t.TempDir(), "kubectl (deleted)")
		check(t, exec.Command("cp", sleep, path).Run())
		c := exec.Command(path, "1000")
		c.Args[0] = "kubectl"
		check(t, c.Start())
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		check(t, change(path))
		want := Program{Path: path, Note: note}
		if note == another { // The path leads elsewhere, like in another mount namespace.
			want.Path += " (deleted)"
		}
		if got := ProgramOf(c.Process.Pid); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if p := ProgramOf(0); p.String() != "unknown: the system does not show which file the process runs" {
		t.Errorf("%s", p)
	}
	if p := (Program{"/tmp/a b", replaced}); p.String() != `"/tmp/a b" (replaced since it was started)` ||
		!p.Named(`"a b"`) ||
		p.Named("kubectl") {
		t.Errorf("%s", p)
	}
}
