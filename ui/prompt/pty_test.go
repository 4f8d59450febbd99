//go:build unix

package prompt

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"golang.org/x/sys/unix"
)

// patience bounds every wait of a test; it is reached only when something is broken.
const patience = 30 * time.Second

// screen is a real pseudo-terminal with a program on it.
type screen struct {
	t      *testing.T
	master *os.File
	before *unix.Termios
	cmd    *exec.Cmd

	mu   sync.Mutex
	out  strings.Builder
	vt   vt10x.Terminal
	more chan struct{}
	done chan struct{}
}

// child is this test binary, told by environment what to do (see TestMain).
func child(mode string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append([]string{"PROMPT_TEST_CHILD=" + mode, "TERM=xterm"}, env...)...)
	return cmd
}

// shell is an interactive shell without line editing, which has job control
// and leaves the terminal's modes to its children.
func shell(env ...string) *exec.Cmd {
	cmd := exec.Command("dash", "-i")
	cmd.Env = append(os.Environ(), append([]string{"PS1=ready> ", "ENV=", "TERM=xterm", "CHILD=" + os.Args[0]}, env...)...)
	return cmd
}

// start runs cmd as the session leader of a new terminal. Standard streams
// that are not set are the terminal.
func start(t *testing.T, cmd *exec.Cmd, setup ...func(tty *os.File)) *screen {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatalf("opening a terminal: %v", err)
	}
	check(t, pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}))
	for _, f := range setup {
		f(tty)
	}
	if cmd.Stdin == nil {
		cmd.Stdin = tty
	}
	if cmd.Stdout == nil {
		cmd.Stdout = tty
	}
	cmd.Stderr = tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2}
	s := &screen{
		t: t, master: master, cmd: cmd,
		vt:   vt10x.New(vt10x.WithSize(80, 24)),
		more: make(chan struct{}, 1),
		done: make(chan struct{}),
	}
	s.before = s.modes()
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting the program: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = tty.Close()
		_ = master.Close()
		<-s.done
	})
	go s.collect()
	return s
}

func (s *screen) collect() {
	defer close(s.done)
	buf := make([]byte, 4096)
	for {
		n, err := s.master.Read(buf)
		s.mu.Lock()
		s.out.Write(buf[:n])
		_, _ = s.vt.Write(buf[:n])
		s.mu.Unlock()
		select {
		case s.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// output is everything written so far.
func (s *screen) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// shown is what a person sees now.
func (s *screen) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vt.String()
}

// until waits for a condition on the output.
func (s *screen) until(what string, ok func() bool) {
	s.t.Helper()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-s.more:
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			s.t.Fatalf("no %s; output so far: %q", what, s.output())
		}
	}
}

// expect waits until text has been written n times (once by default).
func (s *screen) expect(text string, n ...int) {
	s.t.Helper()
	times := 1
	if len(n) > 0 {
		times = n[0]
	}
	s.until(fmt.Sprintf("%q (%d times)", text, times), func() bool { return strings.Count(s.output(), text) >= times })
}

func (s *screen) typed(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.master, keys); err != nil {
		s.t.Fatalf("typing: %v", err)
	}
}

func (s *screen) modes() *unix.Termios {
	s.t.Helper()
	m, err := unix.IoctlGetTermios(int(s.master.Fd()), ioctlGet)
	if err != nil {
		s.t.Fatalf("reading the terminal's modes: %v", err)
	}
	return m
}

func (s *screen) echo() bool { return s.modes().Lflag&unix.ECHO != 0 }

// asking waits until a hidden prompt is on the screen for the nth time and
// the terminal has stopped echoing.
func (s *screen) asking(label string, n ...int) {
	s.t.Helper()
	s.expect(label, n...)
	if s.echo() {
		s.t.Fatalf("the terminal echoes while %q is asked", label)
	}
}

// restored fails unless the terminal is as it was before the program started.
func (s *screen) restored() {
	s.t.Helper()
	if now := s.modes(); *now != *s.before {
		s.t.Errorf("the terminal's modes changed: %+v, before %+v", now, s.before)
	}
}

// never fails if the text was written at any time.
func (s *screen) never(text string) {
	s.t.Helper()
	if strings.Contains(s.output(), text) {
		s.t.Errorf("%q was written: %q", text, s.output())
	}
}

// gone fails if the text is on the screen now.
func (s *screen) gone(text string) {
	s.t.Helper()
	if strings.Contains(s.shown(), text) {
		s.t.Errorf("%q is still on the screen:\n%s", text, s.shown())
	}
}
