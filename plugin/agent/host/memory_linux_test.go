package host

import (
	"errors"
	"flag"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/poll"
)

// manyCommands is how many commands [TestManyCommands] runs: 5000 by hand.
var manyCommands = flag.Int("commands", 200, "how many commands are run against one agent")

// TestManyCommands: commands of many programs, each with a request, leave nothing behind in
// the agent's memory when they have ended. It counts objects, as the size of the heap
// depends on when it was collected.
func TestManyCommands(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.mustAgent(func(a *agent) { a.sessions.Drop("") })
	run := func(n int) {
		for range n {
			check(t, r.command())
		}
		poll.Until(t, "the sessions have ended", func() bool {
			r.agent.sessions.Sweep()
			return r.agent.sessions.Active() == 0
		})
	}
	live := func() uint64 {
		var m runtime.MemStats
		least := ^uint64(0)
		poll.Within(poll.Patience, func() bool { // connections end in the background
			runtime.GC()
			runtime.ReadMemStats(&m)
			fewer := m.HeapObjects < least
			least = min(least, m.HeapObjects)
			return !fewer
		})
		t.Logf("%d objects, %d KB", least, m.HeapAlloc>>10)
		return least
	}
	run(*manyCommands / 2) // Everything that is made once is made now.
	before := live()
	run(*manyCommands)
	const bounded = 400 // objects of what is kept of the last commands; a session is more than three
	if after := live(); after > before+bounded+uint64(*manyCommands) {
		t.Errorf("%d objects after %d commands, %d before them", after, *manyCommands, before)
	}
}

// command is one command of a program of its own: it takes a session, sends a request and
// ends.
func (r *rig) command() (err error) {
	program := exec.Command("sleep", "600")
	if err := program.Start(); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, program.Process.Kill())
		_ = program.Wait() // A killed program ends with an error.
	}()
	c, err := client.Dial(r.t.Context(), r.dirs)
	if err != nil {
		return err
	}
	s, err := r.prepare(c, process.Of(program.Process.Pid), nil)
	if err = errors.Join(err, c.Close()); err != nil {
		return err
	}
	web, err := clientOfSession(r.ep, s)
	if err != nil {
		return err
	}
	defer web.CloseIdleConnections()
	resp, err := web.Get(r.ep.URL("prod") + "/version")
	if err != nil {
		return err
	}
	if _, err = io.Copy(io.Discard, resp.Body); err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}
