package agent

import (
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestSystemdPassesThePort: a connection has systemd start the agent, which has
// the socket from it.
func TestSystemdPassesThePort(t *testing.T) {
	activate := need.Program(t, "systemd-socket-activate")
	r := newRig(t, rigOptions{idle: true})
	exe, err := os.Executable()
	check(t, err)
	cmd := exec.Command(activate, "-l", r.ep.Address(), "-E", home.EnvHome+"="+r.dirs.Home, "-E", agentProgram+"=supervised", exe, "agent", "serve")
	cmd.Stderr = os.Stderr
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the agent has its number, and is told to stop
	poll.Until(t, "somebody can connect", func() bool {
		c, err := net.Dial("tcp4", r.ep.Address())
		if err == nil {
			check(t, c.Close())
		}
		return err == nil
	})
	poll.Until(t, "the agent runs", func() bool {
		c, err := Dial(t.Context(), r.dirs)
		if err == nil {
			check(t, c.Close())
		}
		return err == nil
	})
	st := r.status()
	if st.PID != cmd.Process.Pid || st.BridgeError != "" || st.Bridge != r.ep.Address() {
		t.Errorf("%+v", st)
	}
	check(t, only(r.dial().stop(t.Context())))
}
