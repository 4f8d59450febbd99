//go:build unix

package host

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/port"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestHolder: a holder keeps the port for programs that live, gives it to nobody
// while its agent lives, and leaves nothing behind.
func TestHolder(t *testing.T) {
	dir := t.TempDir()
	d, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: dir}[k] })
	check(t, err)
	check(t, d.Prepare())
	t.Setenv(home.EnvHome, d.Home)
	exe, err := os.Executable()
	check(t, err)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	address := l.Addr().String()
	free := func() bool {
		l, err := net.Listen("tcp4", address)
		if err == nil {
			check(t, l.Close())
		}
		return err == nil
	}
	client := exec.Command("sleep", "3600")
	check(t, client.Start())
	h, err := port.Start(exe, l.(*net.TCPListener))
	check(t, err)
	many := slices.Repeat([]process.ID{{PID: client.Process.Pid, Start: 1}}, 3000) // a start time of 1: all have ended
	check(t, h.Tell(append(many, process.Of(client.Process.Pid))))
	poll.Until(t, "it listens, and gives the port to nobody", func() bool {
		stolen, err := port.Take(d)
		if stolen != nil {
			t.Errorf("somebody has %s while the agent lives", stolen.Addr())
		}
		return err != nil
	})
	check(t, l.Close())
	h.Leave(false)
	if free() || h.Ended() {
		t.Fatal("the port is free")
	}
	check(t, client.Process.Kill())
	_ = client.Wait() // the client was killed
	poll.Until(t, "the holder has ended", h.Ended)
	if _, err := os.Stat(d.PortSocket()); err == nil || !free() {
		t.Fatalf("it left something: %v", err)
	}
}

// TestPassedPort: systemd's listening socket is the bridge's, if it is at the
// bridge's address, and stays open without the agent.
func TestPassedPort(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	right, err := loopback.Listen(r.ep)
	check(t, err)
	for _, l := range []net.Listener{right, other} {
		passed, err := l.(*net.TCPListener).File()
		check(t, err)
		check(t, l.Close())
		r.serve(Options{Port: passed, Supervised: true})
		s := r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
		if code, body := r.get(s, "/version"); code != 200 {
			t.Error(code, body)
		}
		r.end()
		// Nobody accepts it, but it is not refused.
		c, err := net.Dial("tcp4", r.ep.Address())
		if err == nil {
			check(t, c.Close())
		}
		if held := l == right; held != (err == nil) {
			t.Errorf("held %t: %v", held, err)
		}
		check(t, passed.Close())
	}
}

// TestPassedPortIsOurs: what systemd has passed to another process is not taken,
// and nothing that this one starts thinks it was meant.
func TestPassedPortIsOurs(t *testing.T) {
	for _, pid := range []string{"", "1", "x"} {
		env := map[string]string{"LISTEN_PID": pid, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "a"}
		f, err := PassedPort(func(k string) string { return env[k] }, func(k string) error { delete(env, k); return nil })
		if f != nil || err != nil || len(env) > 0 {
			t.Errorf("%q: %v %v %v", pid, f, err, env)
		}
	}
}
