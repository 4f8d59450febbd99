//go:build unix

package prompt

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/kubehsm/kubehsm/test/need"
	"golang.org/x/sys/unix"
)

const pinLabel = "PIV PIN (3 tries left): "

func TestPIN(t *testing.T) {
	t.Parallel()
	s := start(t, child("pin"))
	s.asking(pinLabel)
	for _, want := range []string{`Token "Ada's key" (serial 1234567) needs its PIV PIN to sign in to prod`,
		"kubectl get pods"} {
		if !strings.Contains(strings.ReplaceAll(s.shown(), "\n", ""), want) {
			t.Errorf("the prompt lacks %q:\n%s", want, s.shown())
		}
	}
	s.answered()
	s.never("271828")
	s.gone("PIV PIN")
	s.gone("Ada's key")
}

// TestQuestionOnATerminal: a question that says much shows all of its labels and the place for
// the answer on a terminal of any size, no value begins a line, and all of it goes with the
// answer. So it is with the touch that is an answer.
func TestQuestionOnATerminal(t *testing.T) {
	t.Parallel()
	for _, size := range []pty.Winsize{{Cols: 60, Rows: 15}, {Cols: 80, Rows: 24}} {
		for mode, end := range map[string]string{"question": "Allow it? [y/N] ", "question-touch": "to allow it"} {
			cmd := child(mode, "NO_COLOR=1")
			in, err := cmd.StdinPipe() // Typing would move the cursor while a touch is awaited.
			check(t, err)
			s := start(t, cmd, func(tty *os.File) {
				check(t, pty.Setsize(tty, &size))
			})
			s.expect(end)
			rest := questionLabels
			lines := strings.Split(strings.TrimRight(s.shown(), "\n "), "\n")
			for _, l := range lines {
				switch {
				case len(rest) > 0 && strings.HasPrefix(l, rest[0]):
					rest = rest[1:]
				case !strings.HasPrefix(l, " ") && !strings.HasPrefix(l, "The consent policy of prod") &&
					!strings.Contains(l, end[:8]) &&
					!strings.HasPrefix(l, "Touch the token"):
					t.Errorf("%v: a value begins a line: %q", size, l)
				}
			}
			if len(rest) > 0 || len(lines) > int(size.Rows) {
				t.Errorf("%v %s: %q are missing, %d lines:\n%s", size, mode, rest, len(lines), s.shown())
			}
			if mode == "question" {
				s.typed("y\n")
			} else {
				_, err := io.WriteString(in, "\n")
				check(t, err)
			}
			s.expect("RESULT t")
			s.gone("value of")
			s.gone("consent policy")
		}
	}
}

// TestLines: what was pasted in several lines is one answer, shows nowhere and is
// not left for the shell.
func TestLines(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{
		"first\nsecond.\n":  "pin " + digest("first\nsecond."),
		"first.\n":          "pin " + digest("first."),
		"first\nsecond\n\n": "pin " + digest("first\nsecond\n"), // an empty line ends it
		"first\n\x04":       "pin " + digest("first\n"),
		"first\nsec\x03":    "cancelled",
	} {
		s := start(t, child("lines"))
		s.asking("ticket: ")
		if !strings.Contains(s.shown(), "Paste the ticket, then Enter") {
			t.Errorf("the prompt: %s", s.shown())
		}
		s.typed(keys)
		s.expect("RESULT " + want)
		s.never("first")
		s.never("second")
		s.gone("ticket")
		s.restored()
	}
}

func TestPINEditing(t *testing.T) {
	t.Parallel()
	s := start(t, child("pin"))
	s.asking(pinLabel)
	s.typed("12x\x7f3\x154567\n") // backspace, then ctrl-u
	s.expect("RESULT pin " + digest("4567"))
	s.restored()
	s = start(t, child("pin"))
	s.asking(pinLabel)
	s.typed("\x1b[200~4567\x1b[201~\n") // a paste, as a terminal marks it for the program before
	s.expect("RESULT pin " + digest("4567"))
}

func TestPINEndings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, keys, want string }{
		{"ctrl-c", "123\x03", "RESULT cancelled: cancelled"},
		{"ctrl-backslash", "123\x1c", "RESULT cancelled: cancelled"},
		{"ctrl-d", "\x04", "RESULT cancelled: cancelled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, child("pin"))
			s.asking(pinLabel)
			s.typed(c.keys)
			s.expect(c.want)
			s.never("123 ")
			s.gone("PIV PIN")
			s.restored()
		})
	}
	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := start(t, child("pin"))
			s.asking(pinLabel)
			check(t, s.cmd.Process.Signal(sig))
			s.expect("RESULT cancelled")
			s.restored()
		})
	}
	for mode, want := range map[string]string{
		"timeout": "RESULT timed out: nobody answered the prompt within 0.3 seconds",
		"context": "RESULT timed out: context deadline exceeded",
		"panic":   "RESULT panic while echo is off",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := start(t, child(mode))
			s.expect(want)
			s.restored()
		})
	}
}

// TestClosedTerminal: a prompt does not outlive its terminal, also where nobody hears of the end.
func TestClosedTerminal(t *testing.T) {
	t.Parallel()
	runs, alive, err := os.Pipe()
	check(t, err)
	defer runs.Close()
	c := exec.Command("dash", "-c", `trap "" HUP; "$CHILD" & wait`) // the group stays in front
	c.Env = append(child("pin").Env, "CHILD="+os.Args[0])
	c.ExtraFiles = []*os.File{alive}
	s := start(t, c)
	check(t, alive.Close())
	s.asking(pinLabel)
	check(t, c.Process.Kill()) // the leader of the session
	if _, err := runs.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
}

func TestNewPIN(t *testing.T) {
	t.Parallel()
	s := start(t, child("new"))
	s.asking("New PIV PIN: ")
	s.typed("111111\n")
	s.asking("Repeat it: ")
	s.typed("222222\n")
	s.expect("The two entries differ.")
	s.asking("New PIV PIN: ", 2)
	s.typed("4444\n")
	s.expect("it must have at least 6 characters")
	s.asking("New PIV PIN: ", 3)
	s.typed("\x1b[200~333333\x1b[201~\n")
	s.asking("Repeat it: ", 2)
	s.typed("333333\n")
	s.expect("RESULT pin " + digest("333333"))
	s.never("111111")
	s.never("333333")
	s.restored()
}

func TestRawTerminal(t *testing.T) {
	t.Parallel()
	s := start(t, child("pin"), func(tty *os.File) {
		modes, err := unix.IoctlGetTermios(int(tty.Fd()), ioctlGet)
		check(t, err)
		modes.Lflag &^= unix.ICANON | unix.ECHO // raw modes, like less
		check(t, unix.IoctlSetTermios(int(tty.Fd()), ioctlSet, modes))
	})
	s.expect("RESULT no-terminal: ")
	s.expect("hint: run `kubehsm unlock`")
	s.never("PIV PIN")
	s.restored()
}

func TestNoTerminal(t *testing.T) {
	t.Parallel()
	cmd := child("pin")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "RESULT no-terminal: ") {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestStandardInputIsLeftAlone(t *testing.T) {
	t.Parallel()
	cmd := child("pin-then-stdin")
	cmd.Stdin = strings.NewReader("kind: Pod\n")
	s := start(t, cmd)
	s.asking(pinLabel)
	s.answered()
	s.expect(`STDIN "kind: Pod\n"`)
}

func TestTypeAheadIsDropped(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	check(t, err)
	defer r.Close()
	defer w.Close()
	cmd := child("after-stdin")
	cmd.Stdin = r
	s := start(t, cmd)
	s.typed("cccccc\n") // echoed: it lies in the terminal's queue
	s.expect("cccccc")
	if _, err := w.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	s.asking(pinLabel)
	s.answered()
}

func TestDumbTerminal(t *testing.T) {
	t.Parallel()
	s := start(t, child("pin", "TERM=dumb"))
	s.asking(pinLabel)
	s.typed("271828\n")
	s.expect("RESULT pin")
	s.never("\x1b")
	if !strings.Contains(s.output(), pinLabel+"\r\nRESULT") {
		t.Errorf("no line break after the answer: %q", s.output())
	}
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mode, keys, want string }{
		{"confirm", "y\n", "RESULT true <nil>"},
		{"confirm", "YES\n", "RESULT true <nil>"},
		{"confirm", "n\n", "RESULT false <nil>"},
		{"confirm", "\n", "RESULT false <nil>"},
		{"confirm:yes", "\n", "RESULT true <nil>"},
		{"confirm", "\x03", "RESULT false cancelled"},
		{"type", "1234567\n", "RESULT true <nil>"},
		{"type", "y\n", "RESULT false <nil>"},
	} {
		t.Run(c.mode+" "+strings.TrimSpace(c.keys), func(t *testing.T) {
			t.Parallel()
			s := start(t, child(c.mode))
			if c.mode == "type" {
				s.expect("Type 1234567 to confirm: ")
			} else {
				s.expect("Go on? [")
				s.expect(`second \x1b[31m line`)
			}
			s.typed(c.keys)
			s.expect(c.want)
			s.gone("Go on?")
			s.gone("first line")
			s.gone("confirm")
			s.restored()
		})
	}
	t.Run("unclear answers", func(t *testing.T) {
		t.Parallel()
		s := start(t, child("confirm"))
		for i, keys := range []string{"what\n", "hm\n", "maybe\n"} {
			s.expect("Go on? [y/N] ", i+1)
			s.typed(keys)
		}
		s.expect("RESULT false <nil>")
	})
	for _, c := range []struct {
		name string
		keys []string
		want string
	}{
		{"the second time", []string{"y\n", "jane\n"}, "RESULT true <nil>"},
		{"never", []string{"y\n", "joe\n", "Jane\n"}, "RESULT false <nil>"},
		{"nothing", []string{"y\n", "\n"}, "RESULT false <nil>"},
	} {
		t.Run("what is wanted: "+c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, child("typed"))
			for i, keys := range c.keys {
				if s.expect("Type the words, or jane: ", i+1); i > 0 {
					s.expect("That does not match.", i)
				}
				s.typed(keys)
			}
			s.expect(c.want)
			s.restored()
		})
	}
}

// bothAsk runs two programs in one foreground group.
const bothAsk = `PROMPT_TEST_CHILD=pin "$CHILD" & PROMPT_TEST_CHILD=pin "$CHILD"; wait`

func TestTwoProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", bothAsk)
	dir := t.TempDir()
	const noProcess = "4194305" // no system numbers its processes so high (proc_sys_kernel(5), pid_max)
	check(t, os.WriteFile(filepath.Join(dir, "prompt-"+noProcess+".lock"), nil, 0o600))
	cmd.Env = append(os.Environ(), "CHILD="+os.Args[0], "PROMPT_TEST_LOCKDIR="+dir, "TERM=xterm")
	s := start(t, cmd)
	s.asking(pinLabel)
	s.typed("111111\n")
	s.expect("RESULT pin " + digest("111111"))
	s.asking(pinLabel, 2)
	s.typed("222222\n")
	s.expect("RESULT pin " + digest("222222"))
	s.restored()
	if first, second := strings.Index(s.output(), "\x1b[J"), strings.LastIndex(s.output(), pinLabel); first < 0 ||
		first > second {
		t.Errorf("both asked at the same time: %q", s.output())
	}
	if locks, err := filepath.Glob(filepath.Join(dir, "prompt-*.lock")); err != nil || len(locks) != 1 {
		t.Errorf("lock files: %v, %v", locks, err)
	}
}

// TestSharedTerminal: what other programs write while a prompt is shown stays.
func TestSharedTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mode, prompt, keys, want string }{
		{"pin", pinLabel, "271828\n", "RESULT pin " + digest("271828")},
		{"confirm", "Go on? [y/N] ", "y\n", "RESULT true <nil>"},
		{"confirm", "Go on? [y/N] ", "\x03", "RESULT false cancelled"},
		{"touch", touchLineText, "", "RESULT touched"},
		{"pin later", pinLabel, "271828\n", "RESULT pin " + digest("271828")},
		{"confirm later", "Go on? [y/N] ", "y\n", "RESULT true <nil>"},
		{"touch later", touchLineText, "", "RESULT touched"},
	} {
		t.Run(c.mode+" "+strings.TrimSpace(c.keys), func(t *testing.T) {
			t.Parallel()
			s, next := startFed(t, child("shared:"+c.mode))
			s.expect(c.prompt)
			next()
			s.expect(othersLine)
			if c.keys == "" {
				next()
			} else {
				s.typed(c.keys)
			}
			s.expect(c.want)
			if shown := s.shown(); !strings.Contains(shown, othersLine) ||
				!strings.Contains(shown, strings.TrimSpace(c.prompt)) {
				t.Errorf("it was taken off the screen: %q", shown)
			}
			s.restored()
		})
	}
}

// TestRealPinentry talks to the program that GnuPG's authors ship.
func TestRealPinentry(t *testing.T) {
	t.Parallel()
	program := need.Program(t, "pinentry-tty")
	tty := exec.Command("sh", "-c", `GPG_TTY=$(tty) PROMPT_TEST_CHILD="pinentry:$PINENTRY" exec "$CHILD"`)
	tty.Env = append(os.Environ(), "TERM=xterm", "CHILD="+os.Args[0], "PINENTRY="+program)
	s := start(t, tty)
	s.expect("needs its PIV PIN to sign in to prod")
	s.until("echo off", func() bool { return !s.echo() })
	s.typed("271828\n")
	s.expect("RESULT pin " + digest("271828"))
	s.never("271828")
}
