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

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/test/poll"
)

const touchLineText = `Touch the token "Ada's key" (serial 1234567) to sign in to prod`

// startTouch runs a child whose stdin tells it to go on.
func startTouch(t *testing.T, mode string, env ...string) (s *screen, next func()) {
	t.Helper()
	return startFed(t, child(mode, env...))
}

// startFed runs a program whose stdin is next's.
func startFed(t *testing.T, cmd *exec.Cmd) (s *screen, next func()) {
	t.Helper()
	r, w, err := os.Pipe()
	check(t, err)
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	cmd.Stdin = r
	return start(t, cmd), func() {
		t.Helper()
		if _, err := io.WriteString(w, "\n"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTouch: the line is there at once, and when the bell rings, a terminal that can tells
// the desktop.
func TestTouch(t *testing.T) {
	t.Parallel()
	s, next := startTouch(t, "touch:bell", "KITTY_WINDOW_ID=1", "TMUX=", "STY=")
	s.expect(touchLineText)
	s.expect("\a\x1b]99;i=kubehsm:o=unfocused;" + touchLineText)
	next()
	s.expect("RESULT touched")
	s.gone("Touch")
	s.restored()
}

// TestPad: who is to type the PIN on the reader is told so.
func TestPad(t *testing.T) {
	t.Parallel()
	s, next := startTouch(t, "touch:pad")
	s.expect(`Type the PIN on the reader of token "Ada's key" (serial 1234567) to sign in to prod`)
	next()
	s.expect("RESULT touched")
	s.gone("Type")
	s.restored()
}

func TestTouchDoneAtOnce(t *testing.T) {
	t.Parallel()
	s, next := startTouch(t, "touch")
	next()
	s.expect("RESULT touched")
	if strings.Contains(s.output(), "Touch") && !strings.Contains(s.output(), "\x1b[J") {
		t.Errorf("the line was left: %q", s.output())
	}
}

func TestTouchIsHiddenWhileAPINIsAsked(t *testing.T) {
	t.Parallel()
	s, next := startTouch(t, "touch:pin")
	s.expect(touchLineText)
	next()
	s.asking(pinLabel)
	s.gone("Touch")
	s.typed("271828\n")
	s.expect("Touch", 2)
	next()
	s.expect("RESULT touched")
	s.gone("Touch")
	s.expect("RESULT pin " + digest("271828"))
}

func TestTouchOnADumbTerminal(t *testing.T) {
	t.Parallel()
	s, next := startTouch(t, "touch", "TERM=dumb")
	s.expect(touchLineText)
	next()
	s.expect("RESULT touched")
	s.never("\x1b")
}

// waitingText does not fit a line of the terminal.
var waitingText = `waiting: the PIN of "lab" is being asked for on /dev/pts/3 (kubectl get pods ` +
	strings.Repeat("x", 40) + `, process 4711)`

// stdoutTo has the child's standard output, which the line goes to where there is no
// terminal, somewhere else.
func stdoutTo(t *testing.T, cmd *exec.Cmd) (read func() string) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	check(t, err)
	t.Cleanup(func() { _ = f.Close() })
	cmd.Stdout = f
	return func() string {
		t.Helper()
		b, err := os.ReadFile(f.Name())
		check(t, err)
		return string(b)
	}
}

// TestWaiting: the line is on the terminal while the command waits, and gone then,
// all rows of it.
func TestWaiting(t *testing.T) {
	t.Parallel()
	cmd := child("wait")
	stdout := stdoutTo(t, cmd)
	s, next := startFed(t, cmd)
	for range 2 {
		s.expect("process 4711)")
		s.until("the line", func() bool { return strings.Contains(strings.ReplaceAll(s.shown(), "\n", ""), waitingText) })
		next()
		s.until("nothing of it", func() bool {
			return !strings.Contains(s.shown(), "waiting") &&
				!strings.Contains(s.shown(), "4711")
		})
	}
	s.expect("RESULT waited")
	s.restored()
	s.never("\a")
	if out := stdout(); out != "" {
		t.Errorf("written elsewhere, too: %q", out)
	}
}

// TestWaitingWithoutATerminal: the line is written once for each reason.
func TestWaitingWithoutATerminal(t *testing.T) {
	t.Parallel()
	cmd := child("wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdout := stdoutTo(t, cmd)
	in, err := cmd.StdinPipe()
	check(t, err)
	check(t, cmd.Start())
	poll.Until(t, "the line", func() bool { return strings.HasSuffix(stdout(), "\n") })
	for range 2 {
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
	}
	check(t, cmd.Wait())
	if out := stdout(); out != waitingText+"\n" {
		t.Errorf("%q", out)
	}
}

// TestWaitingBehindAPager: a terminal in raw mode is another program's, and its
// screen too.
func TestWaitingBehindAPager(t *testing.T) {
	t.Parallel()
	cmd := child("wait")
	stdout := stdoutTo(t, cmd)
	s, next := startFed(t, cmd)
	held := s.modes()
	held.Lflag &^= unix.ICANON
	check(t, unix.IoctlSetTermios(int(s.master.Fd()), ioctlSet, held))
	if !raw(s.master) {
		t.Error("a terminal in raw mode is not known")
	}
	poll.Until(t, "the line", func() bool { return stdout() == waitingText+"\n" })
	s.never("waiting")
	check(t, unix.IoctlSetTermios(int(s.master.Fd()), ioctlSet, s.before))
	if raw(s.master) {
		t.Error("a terminal in line mode counts as held")
	}
	next()
	next()
	s.expect("RESULT waited")
}

// TestWaitingAfterStopAndForeground: the line is there again.
func TestWaitingAfterStopAndForeground(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.typed(strings.Replace(run, "=pin", "=wait", 1) + "\n")
	s.expect("4711)")
	s.typed("\x1a")
	s.expect("Stopped")
	s.expect("ready> ", 2)
	s.typed("fg\n")
	s.expect("4711)", 2)
	s.typed("\n\n")
	s.expect("RESULT waited")
}
