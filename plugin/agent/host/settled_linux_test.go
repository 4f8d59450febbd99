package host

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// TestOneAgentForAHost: under su, cron and others that pass on little of the environment, the agent of this host is
// found, and another one started by nobody.
func TestOneAgentForAHost(t *testing.T) {
	exe := program(t, home.Dirs{}, "1")
	user, session := t.TempDir(), t.TempDir()
	for _, name := range []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", user)
	check(t, os.Chmod(session, 0o700))
	in := func(runtime string) home.Dirs {
		t.Helper()
		d, err := home.FromEnv(func(name string) string {
			return map[string]string{"HOME": user, "XDG_RUNTIME_DIR": runtime}[name]
		})
		check(t, err)
		return d
	}
	bare, full := in(""), in(session) // neither knows of an agent yet
	ran := make(chan int, 2)
	var wg sync.WaitGroup
	for _, d := range []home.Dirs{bare, full} {
		wg.Go(func() {
			c, err := client.EnsureProgram(t.Context(), d, client.Program{Path: exe})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			s, err := c.Status(t.Context())
			if err != nil {
				t.Error(err)
			}
			ran <- s.PID
		})
	}
	wg.Wait()
	if a, b := <-ran, <-ran; a != b {
		t.Errorf("two agents, %d and %d", a, b)
	}
	for _, d := range []home.Dirs{bare, full, in(""), in(session)} {
		check(t, only(client.Lock(t.Context(), d, nil)))
	}
	check(t, only(client.Stop(t.Context(), in(""), nil)))
}

// TestImpostorIsNoticed: who listens in the agent's place, and says that all is locked, is not believed. The agent,
// which nobody reaches, is ended.
func TestImpostorIsNoticed(t *testing.T) {
	m := newMoodyRig(t)
	pid, _ := m.unlockedElsewhere()
	l, err := socket.Listen(m.dirs.Socket())
	check(t, err)
	defer l.Close()
	if c, err := client.Dial(t.Context(), m.dirs); !errors.Is(err, client.ErrImpostor) {
		t.Errorf("%v, %v", c, err)
	}
	ended, err := client.Lock(t.Context(), m.dirs, nil)
	if !errors.Is(err, client.ErrImpostor) || ended.Agent != pid {
		t.Errorf("%+v, %v", ended, err)
	}
}
