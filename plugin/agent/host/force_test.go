//go:build linux && cgo

package host

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/socket"
	"github.com/kubehsm/kubehsm/test/poll"
)

// unlockedElsewhere starts an agent in a process of its own and unlocks its token.
func (m moodyRig) unlockedElsewhere() (agent, worker int) {
	m.t.Helper()
	c := m.ensure("workers")
	defer c.Close()
	_, err := m.prepare(c, caller(1), hsmtest.NewScript(m.t, hsmtest.PIN(m.pin)))
	check(m.t, err)
	return m.status().PID, m.worker().PID
}

// TestLockOfAStoppedAgent: what cannot be asked is ended, and that is on record.
func TestLockOfAStoppedAgent(t *testing.T) {
	t.Parallel()
	m := newMoodyRig(t)
	pid, worker := m.unlockedElsewhere()
	agent, err := pinOf(pid)
	check(t, err)
	held, err := pinOf(worker)
	check(t, err)
	check(t, errors.Join(held.Signal(syscall.SIGSTOP), agent.Signal(syscall.SIGSTOP)))
	began := time.Now()
	ended, err := client.Lock(t.Context(), m.dirs, nil)
	took := time.Since(began)
	if err != nil || ended.Agent != pid {
		t.Fatalf("%+v, %v", ended, err)
	}
	if took > wire.MaxSilence { // an idle machine takes 2 s
		t.Errorf("it took %s", took)
	}
	if !agent.gone() {
		t.Error("it has not ended")
	}
	poll.Until(t, "the worker has ended", held.gone)
	seen := m.recordsOf("")
	if last := seen[len(seen)-1]; last.Event != audit.AgentStop || last.Reason != "no-answer" || last.Agent != pid {
		t.Errorf("the audit log ends with %+v", last)
	}
	if _, again := m.unlockedElsewhere(); again == worker { // the next agent asks for the PIN
		t.Error("the same worker")
	}
	check(t, only(client.Stop(t.Context(), m.dirs, nil)))
}

// TestStrangersAreNotEnded: a process that listens at the agent's socket and does not
// answer is ended only if it is the agent.
func TestStrangersAreNotEnded(t *testing.T) {
	t.Parallel()
	m := newMoodyRig(t)
	l, err := socket.Listen(m.dirs.Socket()) // the listener, this process, is no agent
	check(t, err)
	_, err = client.Lock(t.Context(), m.dirs, nil)
	if !errors.Is(err, client.ErrNoAnswer) || !strings.Contains(err.Error(), "nothing says which process it is") ||
		!strings.Contains(hinting.Of(err), "kill -CONT") {
		t.Errorf("%v (hint: %s)", err, hinting.Of(err))
	}
	check(t, errors.Join(l.Close(), os.Remove(m.dirs.Socket())))

	pid, _ := m.unlockedElsewhere()
	check(t, syscall.Kill(pid, syscall.SIGSTOP))
	other := dirsOf(t, t.TempDir())
	check(t, os.Symlink(m.dirs.Socket(), other.Socket()))
	earlier, err := json.Marshal(process.ID{PID: pid, Start: 1}) // an agent that had the number
	check(t, err)
	check(t, os.WriteFile(other.AgentProcess(), earlier, 0o600))
	_, err = client.Lock(t.Context(), other, nil)
	if !errors.Is(err, client.ErrNoAnswer) || !errors.Is(err, process.ErrEnded) {
		t.Error(err)
	}
	if state := stat(pid)[0]; !slices.Contains([]string{"T", "S"}, state) {
		t.Errorf("the other agent is in state %s", state)
	}
	check(t, syscall.Kill(pid, syscall.SIGCONT))
	check(t, only(client.Stop(t.Context(), m.dirs, nil)))
}
