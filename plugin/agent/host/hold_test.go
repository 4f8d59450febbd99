//go:build unix

package host

import (
	"net"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
)

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
