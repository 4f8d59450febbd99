package host

import (
	"bufio"
	"net"
	"os/exec"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestSystemdPassesThePort: a connection has systemd start the agent, which has
// the socket from it. So has a command, as no agent of its own could have the port.
func TestSystemdPassesThePort(t *testing.T) {
	for what, begin := range map[string]func(t *testing.T, r *rig, exe string){
		"connection": func(t *testing.T, r *rig, _ string) {
			c, err := net.Dial("tcp4", r.ep.Address())
			check(t, err)
			check(t, c.Close())
		},
		"command": func(t *testing.T, r *rig, exe string) {
			c, err := client.EnsureProgram(t.Context(), r.dirs, client.Program{Path: exe})
			check(t, err)
			check(t, c.Close())
		},
	} {
		t.Run(what, func(t *testing.T) {
			activate := need.Program(t, "systemd-socket-activate")
			r := newRig(t, rigOptions{idle: true})
			exe := program(t, r.dirs, "1")
			cmd := exec.Command(activate, "-l", r.ep.Address(), "-E", home.EnvHome+"="+r.dirs.Home, "-E",
				agentProgram+"=supervised", exe, "agent", "serve")
			stderr, err := cmd.StderrPipe()
			check(t, err)
			check(t, cmd.Start())
			t.Cleanup(func() {
				if t.Failed() {
					_ = cmd.Process.Kill() // systemd-socket-activate may still wait for a connection
				}
				_ = cmd.Wait() // the agent has its number, and is told to stop
			})
			said, err := bufio.NewReader(stderr).ReadString('\n')
			t.Log(said)
			check(t, err)
			begin(t, r, exe)
			poll.Until(t, "the agent runs", r.runs)
			st := r.status()
			if st.PID != cmd.Process.Pid || st.BridgeError != "" || st.Bridge != r.ep.Address() {
				t.Errorf("%+v", st)
			}
			check(t, only(r.dial().Stop(t.Context())))
		})
	}
}
