package host

import (
	"os"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/test/logind"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestLeavingLocks: the tokens are locked, and sessions ended, when the person leaves the
// computer. The audit log, the status and the next prompt say why. Where nothing was open,
// there is nothing on record.
func TestLeavingLocks(t *testing.T) {
	bus := logind.New(t)
	bus.Start()
	bus.AddSession("ours", "seat0", os.Getuid(), true)
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.Address)
	r := newRig(t, rigOptions{idle: true})
	r.serve(Options{LockOn: settings.LockOn{Suspend: true, ScreenLock: true}})
	poll.Until(t, "logind is asked", func() bool {
		on := r.status().LocksOn
		return len(on) == 2 && on[0].Problem == "" && on[1].Problem == ""
	})
	bus.Lock("ours") // nothing is open
	bus.Sleep(true)
	// The agent has taken both, in their order, when it has let the system sleep.
	poll.Until(t, "the agent lets the system sleep", func() bool { return len(bus.Inhibitors()) == 0 })
	bus.Sleep(false)
	for i, leave := range []struct {
		why, words string
		leave      func()
	}{
		{"screen-lock", "the screen was locked", func() { bus.SetLocked("ours", true) }},
		{"suspend", "the computer was suspended", func() { bus.Sleep(true) }},
	} {
		script := hsmtest.NewScript(t, hsmtest.PIN(pin))
		s := r.mustPrepare(script)
		if code, _ := r.get(s, "/version"); code != 200 {
			t.Fatal(code)
		}
		leave.leave()
		var token message.TokenStatus
		poll.Until(t, leave.why+" locks", func() bool {
			token = r.status().Tokens[0]
			return !token.Unlocked && token.LockedBy != "" && len(r.recordsOf(audit.Lock)) == i+1 // which comes last
		})
		if token.LockedBy != leave.why || token.LockedAt.IsZero() {
			t.Errorf("%s: %+v", leave.why, token)
		}
		if code, _ := r.get(s, "/version"); code != 401 {
			t.Errorf("%s: the session answers %d", leave.why, code)
		}
		script = hsmtest.NewScript(t, hsmtest.PIN(pin))
		r.mustPrepare(script)
		if n := script.PINs()[0].Purpose.Notice; !strings.Contains(n, leave.words) {
			t.Errorf("%s: the prompt says %q", leave.why, n)
		}
		if token = r.status().Tokens[0]; token.LockedBy != "" {
			t.Errorf("%s: unlocked again, but %+v", leave.why, token)
		}
		r.mustAgent(func(a *agent) { check(t, only(a.locks.all("", nil))) })
	}
	var why []string
	for _, l := range r.recordsOf(audit.Lock) {
		why = append(why, l.Reason)
	}
	if got := strings.Join(why, " "); got != "screen-lock suspend" {
		t.Errorf("on record: %s", got)
	}
}
