//go:build unix

package interrupt

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
)

// asVar has the test binary be a program of that kind.
const asVar = "KUBEHSM_TEST_INTERRUPT"

func TestMain(m *testing.M) {
	if as := os.Getenv(asVar); as != "" {
		program(as)
	}
	os.Exit(m.Run())
}

// program says "ready" and then does not end by itself, but as says how.
func program(as string) {
	if as == "hanging" || as == "raw mode" {
		grace = 100 * time.Millisecond // it is used up in any case
	}
	ctx, signals, stop := Context(context.Background())
	if strings.HasPrefix(as, "raw ") {
		if _, err := term.MakeRaw(0); err != nil {
			panic(err)
		}
	}
	done := func() {}
	if strings.HasPrefix(as, "finishing") {
		done = signals.Finishing()
	}
	os.Stdout.WriteString("ready\n")
	switch as {
	case "obedient":
		<-ctx.Done()
		os.Stdout.WriteString(context.Cause(ctx).Error() + "\n")
		stop()
		os.Exit(7)
	case "finishing, then obedient":
		<-ctx.Done()
		os.Stdout.WriteString("told\n")
		if _, err := os.Stdin.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
			panic(err)
		}
		done()
		stop()
		os.Exit(7)
	}
	select {} // a library that hangs
}

// child starts such a program and waits until it is ready.
func child(t *testing.T, as string, stdin *os.File) (cmd *exec.Cmd, out *bufio.Reader, words *strings.Builder) {
	t.Helper()
	cmd, words = exec.Command(os.Args[0]), &strings.Builder{}
	cmd.Env = append(os.Environ(), asVar+"="+as)
	cmd.Stderr = words
	if stdin != nil {
		cmd.Stdin = stdin
	}
	pipe, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // the child has ended unless the test failed
	out = bufio.NewReader(pipe)
	if line, err := out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v: %s", line, err, words)
	}
	return cmd, out, words
}

func send(t *testing.T, cmd *exec.Cmd, s os.Signal) {
	t.Helper()
	must.OK(t, cmd.Process.Signal(s))
}

// TestHangingProgramEnds: a program whose main path does not come back ends all the
// same, with its own exit code for each signal and words.
func TestHangingProgramEnds(t *testing.T) {
	for s, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		cmd, _, words := child(t, "hanging", nil)
		send(t, cmd, s)
		_ = cmd.Wait() // the exit code says it
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(words.String(), "did not return") {
			t.Errorf("%v: exit code %d, %q", s, got, words)
		}
	}
}

// TestOrderlyProgramEndsItself: one that comes back has its own exit code.
func TestOrderlyProgramEndsItself(t *testing.T) {
	cmd, out, words := child(t, "obedient", nil)
	send(t, cmd, syscall.SIGTERM)
	line, err := out.ReadString('\n')
	_ = cmd.Wait() // the exit code says it
	if got := cmd.ProcessState.ExitCode(); got != 7 || line != errTerminated.Error()+"\n" || words.Len() > 0 {
		t.Errorf("exit code %d, %q, %v, %q", got, line, err, words)
	}
}

// TestFinishing: what must not be left half-way is waited for, until a second signal.
func TestFinishing(t *testing.T) {
	stdin, release, err := os.Pipe()
	must.OK(t, err)
	defer stdin.Close()
	cmd, out, words := child(t, "finishing, then obedient", stdin)
	send(t, cmd, syscall.SIGINT)
	if line, err := out.ReadString('\n'); line != "told\n" {
		t.Fatalf("%q, %v: %s", line, err, words)
	}
	must.OK(t, release.Close())
	_ = cmd.Wait() // the exit code says it
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit code %d, %q", got, words)
	}

	cmd, _, _ = child(t, "finishing for ever", nil)
	send(t, cmd, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }() // the exit code says it
	poll.Until(t, "a further signal ends it", func() bool {
		_ = cmd.Process.Signal(syscall.SIGTERM) // the child may have ended
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	if got := cmd.ProcessState.ExitCode(); got != 143 {
		t.Errorf("exit code %d", got)
	}
}

// TestTerminalIsRestored: a program that is ended while it has the terminal in raw
// mode leaves it as it was.
func TestTerminalIsRestored(t *testing.T) {
	ptm, pts, err := pty.Open()
	must.OK(t, err)
	defer ptm.Close()
	defer pts.Close()
	before, err := term.GetState(int(pts.Fd()))
	must.OK(t, err)
	cmd, _, _ := child(t, "raw mode", pts)
	if during, err := term.GetState(int(pts.Fd())); err != nil || *during == *before {
		t.Fatalf("it is not in raw mode, %v", err)
	}
	send(t, cmd, syscall.SIGTERM)
	_ = cmd.Wait() // the signal ended the child
	if after, err := term.GetState(int(pts.Fd())); err != nil || *after != *before {
		t.Errorf("the terminal is left as %+v, was %+v, %v", after, before, err)
	}
}
