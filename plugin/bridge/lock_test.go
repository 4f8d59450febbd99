package bridge

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/plugin/process"
)

// TestSessionAfterALock: a lock ends a session. With the next unlock, a program that runs
// the plugin only once goes on with its certificate, which is on record; one whose
// connections nobody has seen does not.
func TestSessionAfterALock(t *testing.T) {
	r := newRig(t, rigOptions{})
	me := process.This()
	client := r.client(r.issue("prod", me))
	get := func(c *http.Client, when string, want int32, words string) {
		t.Helper()
		code, body := r.get(c, "/version")
		if want != http.StatusOK {
			refused(t, body, want, words)
		}
		if code != int(want) {
			t.Fatalf("%s: %d %s", when, code, body)
		}
	}
	get(client, "at first", 200, "")
	other := r.issue("prod", Client{PID: me.PID, Start: me.Start + 1})
	lock := func() {
		r.locked.Store(true)
		r.sessions.Lock("prod")
		if left, others := r.sessions.Status(); len(left)+others.Ended > 0 {
			t.Fatalf("after the lock: %+v, %+v", left, others)
		}
	}
	lock()
	lock() // the screen's lock, and then the computer sleeps
	get(client, "locked", 401, "the enrollment is locked")
	get(client, "locked, once more", 401, "the enrollment is locked")
	if len(r.revived) > 0 || len(listed(r.sessions)) > 0 {
		t.Fatal("a session begins again without a token")
	}
	r.sessions.Sweep()
	r.locked.Store(false)
	get(r.client(other), "a program that no connection was seen of", 401, "unknown session")
	get(client, "unlocked", 200, "")
	get(client, "unlocked, once more", 200, "")
	if got := <-r.revived; got != (owner{"prod", me}) || len(r.revived) > 0 || len(listed(r.sessions)) != 1 {
		t.Errorf("%+v, %d more, %+v", got, len(r.revived), listed(r.sessions))
	}
	lock()
	r.sessions.Drop("prod") // the enrollment is another now
	r.locked.Store(false)
	get(client, "another enrollment", 401, "unknown session")
}

// TestSleepingSessionIsItsPrograms: a session that a lock has ended begins again only on a
// connection that the system says is its program's.
func TestSleepingSessionIsItsPrograms(t *testing.T) {
	var hidden atomic.Bool
	r := newRig(t, rigOptions{whose: func(_, _ netip.AddrPort, of Client, _ []Client) (Client, bool, error) {
		return of, !hidden.Load(), nil
	}})
	cred := r.issue("prod", process.This())
	get := func(want int) {
		t.Helper()
		if code, body := r.get(r.client(cred), "/version"); code != want {
			t.Fatalf("%d %s, want %d", code, body, want)
		}
	}
	get(200)
	r.sessions.Lock("")
	hidden.Store(true)
	get(401)
	hidden.Store(false)
	get(200)
	hidden.Store(true)
	get(200)
}

// TestBusyClientsAreWaitedFor: a client is given as long as the API server gives it to
// say what it wants, 32 seconds.
func TestBusyClientsAreWaitedFor(t *testing.T) {
	if s := NewServer(nil, nil, nil, slog.New(slog.DiscardHandler)); s.http.ReadHeaderTimeout < 32*time.Second {
		t.Errorf("%v", s.http.ReadHeaderTimeout)
	}
}
