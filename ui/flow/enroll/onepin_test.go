package enroll

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/session"
)

// typist answers PIN prompts and counts them.
type typist struct {
	hsm.Prompter
	asked int
}

func (t *typist) PIN(context.Context, hsm.PINPrompt) (*hsm.Secret, error) {
	t.asked++
	return hsm.NewSecret([]byte("123456")), nil
}

// forever keeps a PIN for an hour, and is never told of a lock.
func forever() pinPolicy {
	return pinPolicy{life: time.Hour, locked: func(time.Time) bool { return false }}
}

func prompt(serial, again string) hsm.PINPrompt {
	return hsm.PINPrompt{Kind: hsm.UserPIN, Token: hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Serial: serial}, Again: again}
}

func TestOnePIN(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		name   string
		prove  bool
		second hsm.PINPrompt
		asked  int
	}{
		{"a PIN the token took serves once more", true, prompt("a", ""), 1},
		{"an unproven PIN is not tried again", false, prompt("a", ""), 2},
		{"a refused PIN is not tried again", true, prompt("a", "wrong PIN"), 2},
		{"another token's PIN is asked for", true, prompt("b", ""), 2},
		{"another kind of secret is asked for", true, hsm.PINPrompt{Kind: hsm.PUK, Token: prompt("a", "").Token}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			typist := &typist{}
			pins := newOnePIN(forever())
			o := pins.before(ask.From(typist))
			first, err := o.PIN(ctx, prompt("a", ""))
			if err != nil {
				t.Fatal(err)
			}
			first.Zero() // the driver zeroes what it was given
			if tc.prove {
				pins.prove(prompt("a", "").Token.URI())
			}
			second, err := o.PIN(ctx, tc.second)
			if err != nil {
				t.Fatal(err)
			}
			if string(second.Bytes()) != "123456" {
				t.Errorf("second PIN is %q", second.Bytes())
			}
			if typist.asked != tc.asked {
				t.Errorf("asked %d times, want %d", typist.asked, tc.asked)
			}
		})
	}
	t.Run("it serves one second use, not two", func(t *testing.T) {
		typist := &typist{}
		pins := newOnePIN(forever())
		o := pins.before(ask.From(typist))
		for range 3 {
			pin, err := o.PIN(ctx, prompt("a", ""))
			if err != nil {
				t.Fatal(err)
			}
			pin.Zero()
			pins.prove(prompt("a", "").Token.URI())
		}
		if typist.asked != 2 {
			t.Errorf("asked %d times, want 2", typist.asked)
		}
	})
	t.Run("zero forgets", func(t *testing.T) {
		typist := &typist{}
		pins := newOnePIN(forever())
		o := pins.before(ask.From(typist))
		if _, err := o.PIN(ctx, prompt("a", "")); err != nil {
			t.Fatal(err)
		}
		pins.prove(prompt("a", "").Token.URI())
		pins.zero()
		if len(pins.kept) != 0 {
			t.Error("a PIN is still kept")
		}
	})
}

// TestOnePINIsProvenForItsToken: that one token took its PIN says nothing of another's.
func TestOnePINIsProvenForItsToken(t *testing.T) {
	typist, pins := &typist{}, newOnePIN(forever())
	defer pins.zero()
	o := pins.before(ask.From(typist))
	for _, serial := range []string{"a", "b"} {
		if _, err := o.PIN(t.Context(), prompt(serial, "")); err != nil {
			t.Fatal(err)
		}
	}
	pins.prove(prompt("a", "").Token.URI())
	for _, serial := range []string{"b", "a"} {
		if _, err := o.PIN(t.Context(), prompt(serial, "")); err != nil {
			t.Fatal(err)
		}
	}
	if typist.asked != 3 {
		t.Errorf("asked %d times, want 3: b's PIN is not proven", typist.asked)
	}
}

// TestOnePINFollowsTheLockPolicy: a PIN that was typed is kept for as long as the agent would keep
// a token unlocked that nobody uses, and no longer than until a lock is asked for; then it is
// overwritten, not only refused.
func TestOnePINFollowsTheLockPolicy(t *testing.T) {
	key := prompt("a", "").Token.URI().String()
	for name, c := range map[string]struct {
		ago, lockAgo time.Duration // lockAgo: 0 for no lock
		kept         bool
	}{
		"just before the time is over": {ago: 30*time.Minute - time.Minute, kept: true},
		"when the time is over":        {ago: 30*time.Minute + time.Second},
		"a lock was asked for since":   {ago: 10 * time.Minute, lockAgo: time.Minute},
		"a lock was asked for before":  {ago: 10 * time.Minute, lockAgo: 11 * time.Minute, kept: true},
	} {
		begun := time.Now()
		locked := func(since time.Time) bool { return c.lockAgo > 0 && begun.Add(-c.lockAgo).After(since) }
		typist, pins := &typist{}, newOnePIN(pinPolicy{life: settings.DefaultIdle, locked: locked})
		o := pins.before(ask.From(typist))
		if _, err := o.PIN(t.Context(), prompt("a", "")); err != nil {
			t.Fatal(err)
		}
		pins.prove(prompt("a", "").Token.URI())
		pins.mu.Lock()
		pin := pins.kept[key].pin
		pins.kept[key].typed = begun.Add(-c.ago)
		pins.mu.Unlock()
		again, err := o.PIN(t.Context(), prompt("a", ""))
		if err != nil || (typist.asked == 1) != c.kept || string(again.Bytes()) != "123456" || !c.kept && pin.Len() != 0 {
			t.Errorf("%s: asked %d times, %d bytes are left, %v", name, typist.asked, pin.Len(), err)
		}
		pins.zero()
	}
	var asked atomic.Bool
	pins := newOnePIN(pinPolicy{life: time.Hour, locked: func(time.Time) bool { return asked.Load() }})
	pins.keep(prompt("a", "").Token, hsm.NewSecret([]byte("123456")), 1)
	pin := pins.kept[key].pin
	asked.Store(true)
	overwritten := func() bool {
		pins.mu.Lock()
		defer pins.mu.Unlock()
		return pin.Len() == 0 && len(pins.kept) == 0
	}
	patience, look := time.NewTimer(time.Minute), time.NewTicker(10*time.Millisecond)
	defer patience.Stop()
	defer look.Stop()
	for !overwritten() {
		select {
		case <-look.C:
		case <-patience.C:
			t.Fatal("the PIN is not overwritten once a lock is asked for")
		}
	}
}

// TestLockPolicy: the policy is the configuration's; without one that can be read no PIN is kept.
func TestLockPolicy(t *testing.T) {
	e := &env.Env{Dirs: home.Dirs{Config: t.TempDir(), State: t.TempDir()}}
	if p := lockPolicy(e); p.life != settings.DefaultIdle || len(p.away) != 2 || p.locked(time.Now().Add(-time.Hour)) {
		t.Errorf("by default: %+v", p)
	}
	before := time.Now().Add(-time.Second)
	if err := (session.Agent{Env: e}).LockAgent(t.Context(), nil); !errors.Is(err, client.ErrNotRunning) {
		t.Fatal(err)
	}
	if p := lockPolicy(e); !p.locked(before) || p.locked(time.Now().Add(time.Hour)) {
		t.Error("a lock is not noticed where no agent runs")
	}
	for _, c := range []struct {
		text string
		life time.Duration
	}{{"unlock:\n  idle: 2m\n", 2 * time.Minute}, {"x", 0}} {
		if err := os.WriteFile(e.Dirs.ConfigFile(), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p := lockPolicy(e); p.life != c.life {
			t.Errorf("%q: %s", c.text, p.life)
		}
	}
	pins := newOnePIN(lockPolicy(e))
	pins.keep(prompt("a", "").Token, hsm.NewSecret([]byte("123456")), 1)
	if len(pins.kept) != 0 {
		t.Error("a PIN is kept without a policy")
	}
}
