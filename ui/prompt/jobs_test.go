//go:build unix

package prompt

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/test/need"
)

// run is how the shell starts the program.
const run = `PROMPT_TEST_CHILD=pin "$CHILD"`

func startShell(t *testing.T) *screen {
	t.Helper()
	need.Program(t, "dash")
	s := start(t, shell())
	s.expect("ready> ")
	return s
}

func TestStopAndForeground(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.typed(run + "\n")
	s.asking(pinLabel)
	s.typed("12\x1a")
	s.expect("Stopped")
	s.expect("ready> ", 2)
	if !s.echo() {
		t.Error("the shell got the terminal back without echo")
	}
	s.gone("PIV PIN (")
	s.typed("echo he''llo\n")
	s.expect("hello")
	s.typed("fg\n")
	s.asking(pinLabel, 2)
	s.answered()
	s.expect("ready> ", 4)
	s.never("271828")
}

func TestStopBackgroundForeground(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.typed(run + "\n")
	s.asking(pinLabel)
	s.typed("\x1a")
	s.expect("ready> ", 2)
	s.typed("bg\n") // a background read stops the job again
	s.expect("ready> ", 3)
	s.typed("\n")
	s.until("second stop", func() bool {
		s.typed("jobs\n")
		return strings.Count(s.output(), "Stopped") >= 2
	})
	if !s.echo() {
		t.Error("no echo while the program is in the background")
	}
	s.typed("fg\n")
	s.asking(pinLabel, 2)
	s.answered()
}

func TestBackground(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.typed(run + " &\n")
	s.expect("RESULT no-terminal: no terminal to ask on: this process is in the background")
	s.never("PIV PIN (")
	s.restored()
}

// TestStopWhereNothingContinues: on a terminal without job control (ssh -t host
// kubectl …) ctrl-z must not lose the prompt.
func TestStopWhereNothingContinues(t *testing.T) {
	t.Parallel()
	s := start(t, child("pin"))
	s.asking(pinLabel)
	s.typed("12\x1a")
	s.expect(pinLabel, 2)
	s.until("echo off", func() bool { return !s.echo() })
	s.answered()
}

// TestStopAfterAPrompt: catching ctrl-z once must not swallow it later.
func TestStopAfterAPrompt(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.typed(`PROMPT_TEST_CHILD=pin-then-wait "$CHILD"` + "\n")
	s.asking(pinLabel)
	s.answered()
	s.typed("\x1a")
	s.expect("Stopped")
	s.expect("ready> ", 2)
	s.typed("fg\n")
	s.expect(`"${CHILD}"`, 2)
	s.typed("\n")
	s.expect("RESULT waited")
}

// answered types the PIN, which the prompt then has, and leaves the terminal as
// it was.
func (s *screen) answered() {
	s.t.Helper()
	s.typed("271828\n")
	s.expect("RESULT pin " + digest("271828"))
	s.restored()
}

// elsewhere does something in the shell that got the terminal back, and returns
// to the prompt.
func (s *screen) elsewhere() {
	s.t.Helper()
	s.expect("ready> ", 2)
	s.typed("echo he''llo\n")
	s.expect("hello")
	s.typed("fg\n")
	s.asking(pinLabel, 2)
}

// led is how the shell starts a program that starts ours, as kubectl does.
const led = `sh -c 'echo "leader $$."; PROMPT_TEST_CHILD=pin "$CHILD"; :'`

// leader is the process that the program of led leads its group with.
func (s *screen) leader() int {
	s.t.Helper()
	s.expect("leader ", 2) // the shell's echo, and ours
	_, rest, _ := strings.Cut(s.output()[strings.LastIndex(s.output(), "leader ")+1:], " ")
	number, _, _ := strings.Cut(rest, ".")
	pid, err := strconv.Atoi(number)
	if err != nil {
		s.t.Fatalf("%q: %v", s.output(), err)
	}
	return pid
}

// TestTypedBeforeTheStopIsHeardOf: when the group's leader has stopped, what is
// typed is the shell's, and no reason to give the prompt up.
func TestTypedBeforeTheStopIsHeardOf(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.typed(led + "\n")
	s.asking(pinLabel)
	check(t, unix.Kill(s.leader(), unix.SIGSTOP))
	s.elsewhere()
	s.answered()
	s.never("RESULT no-terminal")
}

// ours is the program of led that asks.
func (s *screen) ours() int {
	s.t.Helper()
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(s.leader())).Output()
	check(s.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	check(s.t, err)
	return pid
}

// TestStopThatComesLate: what stopped the group is over when it is heard of, so
// that nobody would continue the program.
func TestStopThatComesLate(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.typed(led + "\n")
	s.asking(pinLabel)
	check(t, unix.Kill(s.ours(), unix.SIGTSTP))
	s.asking(pinLabel, 2)
	s.answered()
}

// TestStopHeardOfAfterwards: of a ctrl-z and fg that are over it may be heard when the
// prompt is there again, and an answer begun in it.
func TestStopHeardOfAfterwards(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.typed(led + "\n")
	s.asking(pinLabel)
	ours := s.ours()
	check(t, unix.Kill(s.leader(), unix.SIGSTOP))
	s.elsewhere()
	s.typed("271")
	s.signal(ours, unix.SIGTSTP)
	s.signal(ours, unix.SIGCONT)
	s.asking(pinLabel, 3)
	s.typed("828\n")
	s.expect("RESULT pin " + digest("271828"))
	s.restored()
}

// TestStopOfASlowShell: one that takes the terminal when the prompt was taken up
// again gets it with echo, and at fg the prompt is there.
func TestStopOfASlowShell(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.typed(led + "\n")
	s.asking(pinLabel)
	pid := s.cmd.Process.Pid
	check(t, unix.Kill(pid, unix.SIGSTOP))
	s.typed("12\x1a")
	s.asking(pinLabel, 2)
	check(t, unix.Kill(pid, unix.SIGCONT))
	s.expect("ready> ", 2)
	s.until("echo on", s.echo)
	s.typed("fg\n")
	s.asking(pinLabel, 3)
	s.answered()
}

// TestStopAfterAStopOfNoShell: where no shell takes the terminal, ctrl-z has the prompt
// drawn anew each time, as the line that was begun is lost.
func TestStopAfterAStopOfNoShell(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", `echo "leader $$. leader $$."; PROMPT_TEST_CHILD=pin "$CHILD"; :`)
	cmd.Env = append(os.Environ(), "CHILD="+os.Args[0], "TERM=xterm")
	s := start(t, cmd)
	s.asking(pinLabel)
	pid := s.ours()
	s.signal(pid, unix.SIGCONT)
	s.asking(pinLabel, 2)
	s.typed("12\x1a")
	s.asking(pinLabel, 3)
	s.answered()
}

// TestStopIsOverWhenHeardOf: ctrl-z and fg, heard of together and in any order, have
// the question drawn once more, and what is typed then is the answer.
func TestStopIsOverWhenHeardOf(t *testing.T) {
	for name, signals := range map[string][]syscall.Signal{
		"in order":       {unix.SIGTSTP, unix.SIGCONT},
		"in reverse":     {unix.SIGCONT, unix.SIGTSTP},
		"continued only": {unix.SIGCONT},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 { // a machine that does nothing for a while keeps the two apart
				s := startShell(t)
				s.typed(strings.Replace(led, "=pin", "=confirm", 1) + "\n")
				s.expect(confirmLabel)
				pid := s.ours()
				for _, each := range signals {
					s.signal(pid, each)
				}
				if s.confirmed() == 2 {
					return
				}
			}
			t.Error("the question is drawn more than once")
		})
	}
}

// signal sends a signal and waits until the process has it: SIGTSTP and SIGCONT
// that wait to be delivered end each other (signal(7)).
func (s *screen) signal(pid int, which syscall.Signal) {
	s.t.Helper()
	check(s.t, unix.Kill(pid, which))
	s.until("delivery of "+which.String(), func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		check(s.t, err)
		_, rest, found := strings.Cut(string(status), "ShdPnd:\t")
		hex, _, _ := strings.Cut(rest, "\n")
		pending, err := strconv.ParseUint(hex, 16, 64)
		if !found || err != nil {
			s.t.Fatalf("%s: %v", status, err)
		}
		return pending&(1<<(which-1)) == 0
	})
}

// confirmLabel is the question of the child "confirm".
const confirmLabel = "Go on? [y/N] "

// confirmed says yes, once, when the question was drawn a second time, and returns
// how often it was drawn in all.
func (s *screen) confirmed() int {
	s.t.Helper()
	s.expect(confirmLabel, 2)
	s.typed("y\n")
	s.expect("RESULT true <nil>")
	s.restored()
	return strings.Count(s.output(), confirmLabel)
}

// TestQuestionStopAndForeground: the question of a program that another one leads,
// as an attendant's, after ctrl-z and fg.
func TestQuestionStopAndForeground(t *testing.T) {
	t.Parallel()
	s := startShell(t)
	s.typed(strings.Replace(led, "=pin", "=confirm", 1) + "\n")
	s.expect(confirmLabel)
	s.typed("n\x1a") // not finished
	s.expect("ready> ", 2)
	s.typed("fg\n")
	s.confirmed()
}
