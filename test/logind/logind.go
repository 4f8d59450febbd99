//go:build linux

// Package logind runs a system bus of a test's own, with a logind on it that others wrote:
// dbus-daemon and python3-dbusmock.
package logind

import (
	"encoding/xml"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
)

// Names on the bus.
const (
	name    = "org.freedesktop.login1"
	path    = "/org/freedesktop/login1"
	session = name + ".Session"
	mock    = "org.freedesktop.DBus.Mock"
)

// config lets everybody do everything on a bus.
const config = `<busconfig><type>system</type><listen>unix:path=%</listen><policy context="default">
<allow user="*"/><allow own="*"/><allow send_destination="*" eavesdrop="true"/><allow receive_sender="*"/>
</policy></busconfig>`

// Bus is a bus with a logind, which the test starts and ends.
type Bus struct {
	// Address is what DBUS_SYSTEM_BUS_ADDRESS is to be.
	Address string
	t       testing.TB
	socket  string
	file    string // the bus's configuration
	bus     *exec.Cmd
	login   *exec.Cmd
}

// New returns a Bus that is not started.
func New(t testing.TB) *Bus {
	t.Helper()
	need.Program(t, "dbus-daemon")
	need.File(t, "/usr/lib/python3/dist-packages/dbusmock/templates/logind.py")
	dir := t.TempDir()
	b := &Bus{t: t, socket: filepath.Join(dir, "bus"), file: filepath.Join(dir, "bus.conf")}
	b.Address = "unix:path=" + b.socket
	var escaped strings.Builder
	b.check(xml.EscapeText(&escaped, []byte(b.socket)))
	b.check(os.WriteFile(b.file, []byte(strings.Replace(config, "%", escaped.String(), 1)), 0o600))
	t.Cleanup(b.Stop)
	return b
}

// Start starts the bus, and logind on it.
func (b *Bus) Start() {
	b.t.Helper()
	b.StartBus()
	b.StartLogin()
}

// StartBus starts the bus without logind.
func (b *Bus) StartBus() {
	b.t.Helper()
	b.bus = b.run("dbus-daemon", "--nofork", "--nopidfile", "--config-file="+b.file)
	poll.Until(b.t, "the bus listens", func() bool {
		c, err := dbus.Connect(b.Address)
		return err == nil && c.Close() == nil
	})
}

// StartLogin starts logind.
func (b *Bus) StartLogin() {
	b.t.Helper()
	b.login = b.run("/usr/bin/python3", "-m", "dbusmock", "--template", "logind")
	c := b.Connect()
	poll.Until(b.t, "logind is on the bus", func() bool {
		var owned bool
		return c.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, name).Store(&owned) == nil && owned
	})
}

func (b *Bus) run(program string, args ...string) *exec.Cmd {
	b.t.Helper()
	c := exec.Command(program, args...)
	c.Env = append(os.Environ(), "DBUS_SYSTEM_BUS_ADDRESS="+b.Address)
	c.Stdout, c.Stderr = io.Discard, b.t.Output()
	b.check(c.Start())
	return c
}

// StopLogin ends logind.
func (b *Bus) StopLogin() { end(&b.login) }

// Stop ends both.
func (b *Bus) Stop() {
	end(&b.login)
	end(&b.bus)
	_ = os.Remove(b.socket) // a bus that was killed leaves it
}

func end(c **exec.Cmd) {
	if *c != nil {
		_ = (*c).Process.Kill() // The process may have ended.
		_ = (*c).Wait()
		*c = nil
	}
}

// Connect returns a connection of another program to the bus.
func (b *Bus) Connect() *dbus.Conn {
	b.t.Helper()
	c, err := dbus.Connect(b.Address)
	b.check(err)
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

// AddSession adds a session of user on seat, which becomes the seat's active one.
func (b *Bus) AddSession(id, seat string, user int, active bool) {
	b.t.Helper()
	b.call(path, mock+".AddSession", id, seat, uint32(user), "somebody", active)
	b.emit("SessionNew", "so", id, dbus.ObjectPath(sessionPath(id)))
}

// Lock has logind ask the session to lock its screen.
func (b *Bus) Lock(id string) { b.t.Helper(); b.call(sessionPath(id), session+".Lock") }

// SetLocked is what the screen locker tells logind.
func (b *Bus) SetLocked(id string, locked bool) {
	b.t.Helper()
	b.call(sessionPath(id), session+".SetLockedHint", locked)
}

// Sleep says that the system is about to sleep, or has woken up.
func (b *Bus) Sleep(about bool) {
	b.t.Helper()
	b.emit("PrepareForSleep", "b", about)
}

// Inhibitors are who has the system wait before it sleeps.
func (b *Bus) Inhibitors() (who []string) {
	b.t.Helper()
	var all []struct {
		What, Who, Why, Mode string
		UID, PID             uint32
	}
	b.check(b.Connect().Object(name, path).Call(name+".Manager.ListInhibitors", 0).Store(&all))
	for _, i := range all {
		if i.What == "sleep" && i.Mode == "delay" {
			who = append(who, i.Who)
		}
	}
	return who
}

// emit sends a signal of the manager's.
func (b *Bus) emit(member, signature string, body ...any) {
	b.t.Helper()
	values := make([]dbus.Variant, 0, len(body))
	for _, v := range body {
		values = append(values, dbus.MakeVariant(v))
	}
	b.call(path, mock+".EmitSignal", name+".Manager", member, signature, values)
}

func (b *Bus) call(object, method string, args ...any) {
	b.t.Helper()
	c := b.Connect()
	b.check(c.Object(name, dbus.ObjectPath(object)).Call(method, 0, args...).Err)
	b.check(c.Close())
}

func sessionPath(id string) string { return path + "/session/" + id }

func (b *Bus) check(err error) {
	b.t.Helper()
	must.OK(b.t, err)
}
