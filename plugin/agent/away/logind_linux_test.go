package away

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/kubehsm/kubehsm/test/logind"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
)

// rig is a Watcher on a bus of the test's own.
type rig struct {
	t      *testing.T
	bus    *logind.Bus
	w      *Watcher
	events chan Event
	before func() // called before an event is passed on
}

// others is the user of sessions that are not ours.
const others = 4711

func newRig(t *testing.T, events ...Event) *rig {
	t.Helper()
	r := &rig{t: t, bus: logind.New(t), events: make(chan Event, 100), before: func() {}}
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", r.bus.Address)
	r.w = New(events, func(e Event) { r.before(); r.events <- e })
	return r
}

// start runs the watcher, until the test ends.
func (r *rig) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.w.Run(ctx) }()
	r.t.Cleanup(func() { cancel(); <-done })
}

// watches waits until everything can be told.
func (r *rig) watches() {
	r.t.Helper()
	poll.Until(r.t, "the watcher listens", func() bool {
		return !slices.ContainsFunc(r.w.Watches(), func(w Watch) bool { return w.Problem != "" }) && r.inhibits()
	})
}

func (r *rig) inhibits() bool {
	return !r.w.wants(Suspend) || slices.Contains(r.bus.Inhibitors(), "kubehsm")
}

// tells wants e to be the next event.
func (r *rig) tells(e Event) {
	r.t.Helper()
	select {
	case got := <-r.events:
		if got != e {
			r.t.Fatalf("%s, want %s", got, e)
		}
	case <-time.After(poll.Patience):
		r.t.Fatalf("not told of %s: %+v", e, r.w.Watches())
	}
}

// quiet wants no event to have come before the lock of a session, which follows.
func (r *rig) quiet(id string) {
	r.t.Helper()
	r.bus.Lock(id)
	r.tells(ScreenLock)
}

// TestLeaving: suspend and lock are told, for sessions of the user alone.
func TestLeaving(t *testing.T) {
	r := newRig(t, Suspend, ScreenLock)
	r.bus.Start()
	r.bus.AddSession("other", "seat0", others, false)
	r.bus.AddSession("ours", "seat0", os.Getuid(), true)
	r.start()
	r.watches()

	r.bus.Lock("other")
	r.bus.SetLocked("other", true)
	r.quiet("ours")

	r.bus.SetLocked("ours", true)
	r.tells(ScreenLock)
	r.bus.SetLocked("ours", false)
	r.quiet("ours")

	waited := make(chan bool, 1)
	r.before = func() { waited <- r.inhibits() }
	r.bus.Sleep(true)
	r.tells(Suspend)
	if !<-waited {
		t.Error("the system did not wait with its sleep")
	}
	r.before = func() {}
	poll.Until(t, "the system may sleep", func() bool { return !r.inhibits() })
	r.bus.Sleep(false)
	r.watches() // the next sleep waits too
	r.quiet("ours")
}

// TestOnlyWhatIsSet: what is not set is not told, and nothing waits for us.
func TestOnlyWhatIsSet(t *testing.T) {
	r := newRig(t, ScreenLock)
	r.bus.Start()
	r.bus.AddSession("other", "seat0", others, false)
	r.bus.AddSession("ours", "seat0", os.Getuid(), true)
	r.start()
	r.watches()
	r.bus.Sleep(true)
	r.quiet("ours")
	if who := r.bus.Inhibitors(); len(who) != 0 {
		t.Errorf("%v wait", who)
	}
}

// TestImpostor: another program on the bus that says what logind says is not believed.
func TestImpostor(t *testing.T) {
	r := newRig(t, Suspend, ScreenLock)
	r.bus.Start()
	r.bus.AddSession("ours", "seat0", os.Getuid(), true)
	r.start()
	r.watches()
	c := r.bus.Connect()
	var names []string
	must.OK(t, c.BusObject().Call(busName+".ListNames", 0).Store(&names))
	told := 0
	for _, to := range names {
		if to[0] != ':' {
			continue
		}
		for _, m := range []*dbus.Message{
			signalTo(to, loginPath, manager, "PrepareForSleep", true),
			signalTo(to, loginPath+"/session/ours", session, "Lock"),
			signalTo(to, busPath, busName, "NameOwnerChanged", login, "", c.Names()[0]),
			// Whoever believes it takes this for the owner's.
			signalTo(to, loginPath, manager, "PrepareForSleep", true),
		} {
			must.OK(t, c.Send(m, nil).Err)
			told++
		}
	}
	if told == 0 {
		t.Fatal("nobody was told")
	}
	if err := c.BusObject().Call(busName+".GetId", 0).Err; err != nil { // the bus has passed on what was sent before
		t.Fatal(err)
	}
	r.quiet("ours")
	if len(r.events) != 0 {
		t.Errorf("told of %s", <-r.events)
	}
}

func signalTo(to string, path dbus.ObjectPath, iface, member string, body ...any) *dbus.Message {
	m := &dbus.Message{Type: dbus.TypeSignal, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldDestination: dbus.MakeVariant(to), dbus.FieldPath: dbus.MakeVariant(path),
		dbus.FieldInterface: dbus.MakeVariant(iface), dbus.FieldMember: dbus.MakeVariant(member)}, Body: body}
	if len(body) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	}
	return m
}

// TestMissed: what has happened while the connection was broken is told afterwards.
func TestMissed(t *testing.T) {
	r := newRig(t, ScreenLock)
	r.bus.Start()
	r.bus.AddSession("other", "seat0", others, false)
	r.bus.AddSession("ours", "seat0", os.Getuid(), true)
	s := newSource(r.w)
	connected := func() {
		ctx, cancel := context.WithCancel(t.Context())
		r.w.note("not connected", "")
		ended := make(chan error, 1)
		go func() {
			_, err := s.follow(ctx)
			ended <- err
		}()
		r.watches()
		cancel()
		<-ended
	}
	connected()
	r.bus.SetLocked("ours", true)
	connected()
	r.tells(ScreenLock)
	connected()
	if len(r.events) > 0 {
		t.Errorf("told of %s again", <-r.events)
	}
}

// TestBusComesBack: without a bus or logind the watcher says so. When they are started
// again it goes on.
func TestBusComesBack(t *testing.T) {
	defer func(before time.Duration) { retrySoon = before }(retrySoon)
	retrySoon = 50 * time.Millisecond
	r := newRig(t, Suspend, ScreenLock)
	r.start()
	says := func(words string) {
		t.Helper()
		poll.Until(t, words, func() bool { return r.w.Watches()[1].Problem == words })
	}
	says("there is no system bus")
	r.bus.StartBus()
	says("logind is not running")
	r.bus.StartLogin()
	r.bus.AddSession("ours", "seat0", os.Getuid(), true)
	r.watches()
	r.quiet("ours")

	r.bus.StopLogin()
	says("logind is not running")
	r.bus.StartLogin()
	r.bus.AddSession("ours", "seat0", os.Getuid(), true)
	r.watches()
	r.quiet("ours")

	r.bus.Stop()
	says("there is no system bus")
	r.bus.Start()
	r.bus.AddSession("ours", "seat0", os.Getuid(), true)
	r.watches()
	r.quiet("ours")
}

// TestDeafBus: a bus that takes connections and says nothing is given up, and that is told.
func TestDeafBus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", path)
	must.OK(t, err)
	defer l.Close()
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+path)
	defer func(before time.Duration) { patience = before }(patience)
	patience = time.Second
	_, err = newSource(New([]Event{Suspend}, func(Event) {})).follow(t.Context())
	if err == nil || err.Error() != "the system bus did not answer for 1 second" {
		t.Error(err)
	}
}

// TestAddresses: only sockets are connected to, since other addresses start programs.
func TestAddresses(t *testing.T) {
	for set, want := range map[string][]string{
		"":                                  {"/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket"},
		"unixexec:path=/bin/sh,argv1=-c":    {"/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket"},
		"autolaunch:;unix:guid=1,path=/a/b": {"/a/b"},
		"unix:abstract=x;tcp:host=h,port=1": {"@x"},
	} {
		if got := addresses(func(string) string { return set }); !slices.Equal(got, want) {
			t.Errorf("%q: %q", set, got)
		}
	}
}
