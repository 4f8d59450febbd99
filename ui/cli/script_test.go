//go:build unix

package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// TestMain lets scripts run the program by its name: this binary, with a virtual card of its own in each run.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"kubehsm": func() {
		fake := hsmtest.NewFake(hsm.SchemePIV)
		fake.Add(hsmtest.FakeOptions{Serial: "12345678", PIN: testPIN, Can: hsmtest.Administered()})
		p := &Program{Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
			Setenv: os.Setenv, Executable: "/usr/bin/kubehsm", Version: "v1.2.3",
			Drivers: func(DriverOptions) hsm.Drivers { return hsm.Drivers{keepOpen{fake}} },
			TUI:     func(context.Context, TUIOptions) (*enrolling.Result, error) { return nil, hsm.ErrNoTerminal },
		}
		os.Exit(p.Run(context.Background()))
	}})
}

// TestScript runs the scripts in testdata/script, which show what the main commands print. Beside the commands of
// testscript they have:
//
//	exits CODE PROGRAM ARG...       runs a program without a terminal; the exit code must be CODE
//	terminal FILE PROGRAM ARG...    runs a program on a terminal. Each line of FILE is a part of what the program
//	                                prints, " > ", and the answer to it.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("KUBEHSM_HOME", home)
			e.Setenv("KUBECONFIG", filepath.Join(e.WorkDir, "kubeconfig"))
			return os.Mkdir(home, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "terminal": onTerminal},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	// Exec takes no exit code; a session of its own has no terminal.
	cmd := scripted(ts, args[1:])
	cmd.Stdout, cmd.Stderr = ts.Stdout(), ts.Stderr()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if got := exitCode(ts, cmd.Run()); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func onTerminal(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: terminal FILE PROGRAM ARG...")
	}
	cmd := scripted(ts, args[1:])
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	ts.Check(err)
	var shown strings.Builder
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		part, answer, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " > ")
		for seen := shown.Len(); !strings.Contains(shown.String()[seen:], part); {
			b := make([]byte, 1)
			if _, err := tty.Read(b); err != nil {
				ts.Fatalf("%q was not shown: %v\n%s", part, err, shown.String())
			}
			shown.Write(b)
		}
		_, err := io.WriteString(tty, answer+"\n")
		ts.Check(err)
	}
	rest, _ := io.ReadAll(tty) // an error says that the program has ended
	shown.Write(rest)
	_, err = io.WriteString(ts.Stdout(), strings.ReplaceAll(shown.String(), "\r\n", "\n"))
	ts.Check(err)
	if failed := exitCode(ts, cmd.Wait()) != 0; failed != neg {
		ts.Fatalf("the program failed: %v\n%s", failed, shown.String())
	}
}

// scripted is a program with the folder and the environment of a script.
func scripted(ts *testscript.TestScript, args []string) *exec.Cmd {
	path := args[0]
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), string(os.PathListSeparator)) {
		if at := filepath.Join(dir, args[0]); !strings.Contains(path, "/") && isFile(at) {
			path = at
		}
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.WaitDelay = time.Minute
	for _, name := range []string{"HOME", "KUBEHSM_HOME", "KUBECONFIG", "PATH"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	return cmd
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func exitCode(ts *testscript.TestScript, err error) int {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		ts.Check(err)
		return 0
	}
	return exit.ExitCode()
}
