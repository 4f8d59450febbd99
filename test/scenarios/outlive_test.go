//go:build linux

package scenarios

import (
	"strings"
	"syscall"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/term"
)

// TestAgentOutlivesItsClients: the agent that a command started, and unlocked,
// stays for the next one, however that command and its terminal end, and whatever
// signals a session's end brings.
func TestAgentOutlivesItsClients(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	u.kubehsm("agent", "stop")
	s := u.sh("kubectl get namespaces --watch -o name")
	s.Answer(pinPrompt, lab.PIN)
	s.WaitFor("namespace/default")
	first := u.agentStatus()
	serves := func(t *testing.T) { // without a terminal: nobody can be asked again
		u := u.in(t)
		if out := u.kubectl("get", "namespaces", "-o", "name"); !strings.Contains(out, "namespace/default") {
			t.Errorf("got %q", out)
		}
		if now := u.agentStatus(); now.PID != first.PID || now.Signatures != first.Signatures {
			t.Errorf("process %d with %d signatures, was %d with %d", now.PID, now.Signatures, first.PID, first.Signatures)
		}
	}
	t.Run("ctrl-c", func(t *testing.T) {
		s.Press(term.CtrlC)
		s.Exit()
		serves(t)
	})
	t.Run("a terminal that is closed", func(t *testing.T) {
		terminal, err := term.Start(term.Options{Path: "/bin/bash", Args: []string{"--norc", "-i"}, Dir: u.Dir, Env: u.Env(),
			Columns: 100, Rows: 30})
		must.OK(t, err)
		must.OK(t, terminal.Type("kubectl get namespaces --watch -o name\r"))
		if err := terminal.Wait(t.Context(), func(f term.Frame) bool { return f.Contains("namespace/default") }); err != nil {
			t.Error(err)
		}
		if err := terminal.Close(); err != nil {
			t.Error(err)
		}
		serves(t)
	})
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGPIPE} {
		t.Run(signal.String(), func(t *testing.T) {
			must.OK(t, syscall.Kill(first.PID, signal))
			serves(t)
		})
	}
	t.Run("stopped and continued", func(t *testing.T) {
		for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			must.OK(t, syscall.Kill(first.PID, signal))
		}
		serves(t)
	})
}
