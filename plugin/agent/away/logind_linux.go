package away

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/kubehsm/kubehsm/hsm/shared/span"
)

// Names on the bus.
const (
	busName    = "org.freedesktop.DBus"
	busPath    = "/org/freedesktop/DBus"
	login      = "org.freedesktop.login1"
	loginPath  = "/org/freedesktop/login1"
	manager    = login + ".Manager"
	session    = login + ".Session"
	properties = busName + ".Properties"
)

// patience bounds how long the bus and logind may take to answer. A test changes it.
var patience = 5 * time.Second

// source is logind.
type source struct {
	w        *Watcher
	conn     *dbus.Conn
	sessions map[dbus.ObjectPath]bool // the user's sessions, and whether each is locked; nil before they were first listed
	delay    *os.File                 // The system waits with its sleep while this is open.
}

func newSource(w *Watcher) *source { return &source{w: w} }

// follow connects to the bus and tells of events until ctx ends or the connection breaks.
// began tells whether logind has answered.
func (s *source) follow(ctx context.Context) (began bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := &inbox{signals: make(chan *dbus.Signal, 1024), full: cancel}
	if s.conn, err = connect(ctx, in); err != nil {
		return false, err
	}
	defer s.conn.Close() // nothing is left to be sent
	defer s.release()
	if err := s.subscribe(ctx); err != nil {
		return false, err
	}
	owner, err := s.owner(ctx)
	if err != nil {
		return false, err
	}
	for {
		in.trust(owner)
		if owner == "" {
			s.release()
			s.w.note("logind is not running", "")
		} else if err := s.begin(ctx); err != nil {
			return began, err
		} else {
			began = true
		}
		if owner, err = s.listen(ctx, in.signals); err != nil {
			return began, err
		}
	}
}

// listen handles signals until logind has another owner, which it returns.
func (s *source) listen(ctx context.Context, signals <-chan *dbus.Signal) (owner string, err error) {
	for {
		select {
		case <-s.conn.Context().Done():
			return "", errors.New("the connection to the system bus broke")
		case m := <-signals:
			if m.Sender == busName {
				if len(m.Body) == 3 && m.Body[0] == login {
					owner, _ = m.Body[2].(string)
					return owner, nil
				}
			} else if err := s.handle(ctx, m); err != nil {
				return "", err
			}
		}
	}
}

// inbox takes the signals of the bus and of logind. Every user of the computer can send
// others to us, under any name but these two.
type inbox struct {
	owner   atomic.Pointer[string]
	signals chan *dbus.Signal
	full    func()
}

// trust has signals of that unique name taken, and of the bus itself.
func (b *inbox) trust(owner string) { b.owner.Store(&owner) }

// DeliverSignal implements [dbus.SignalHandler].
func (b *inbox) DeliverSignal(_, _ string, m *dbus.Signal) {
	if owner := b.owner.Load(); m.Sender != busName && (owner == nil || *owner == "" || m.Sender != *owner) {
		return
	}
	select {
	case b.signals <- m:
	default:
		b.full() // to look anew is better than to miss one
	}
}

// addresses are where the system bus listens, as paths that [net.Dial] knows. Only sockets
// count: other kinds of addresses have a program started.
func addresses(getenv func(string) string) (all []string) {
	for address := range strings.SplitSeq(getenv("DBUS_SYSTEM_BUS_ADDRESS"), ";") {
		kind, rest, _ := strings.Cut(address, ":")
		for part := range strings.SplitSeq(rest, ",") {
			switch key, value, _ := strings.Cut(part, "="); {
			case kind == "unix" && key == "path":
				all = append(all, value)
			case kind == "unix" && key == "abstract":
				all = append(all, "@"+value)
			}
		}
	}
	if all == nil {
		all = []string{"/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket"}
	}
	return all
}

// dial connects to the first address that listens.
func dial(ctx context.Context) (conn net.Conn, err error) {
	for _, address := range addresses(os.Getenv) {
		if conn, err = new(net.Dialer).DialContext(ctx, "unix", address); err == nil {
			return conn, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("there is no system bus")
	}
	return nil, fmt.Errorf("the system bus: %w", err)
}

// connect opens the connection that signals come by. It takes no file descriptors, which
// anybody could send to us until we have no more.
func connect(ctx context.Context, in *inbox) (*dbus.Conn, error) {
	c, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := dbus.NewConn(c, dbus.WithContext(ctx), dbus.WithSignalHandler(in))
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return conn, introduce(conn)
}

// introduce authenticates a connection, and closes one that the bus does not take in time.
func introduce(conn *dbus.Conn) error {
	late := time.AfterFunc(patience, func() { _ = conn.Close() })
	err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))})
	if err == nil {
		err = conn.Hello()
	}
	if !late.Stop() {
		return fmt.Errorf("the system bus did not answer for %s", span.Limit(patience))
	}
	if err != nil {
		_ = conn.Close() // A connection that the bus refuses is of no use.
		return fmt.Errorf("the system bus refuses the connection: %w", err)
	}
	return nil
}

// subscribe has the bus send us what logind says, and who logind is.
func (s *source) subscribe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := s.conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(busName), dbus.WithMatchInterface(busName),
		dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, login))
	if err == nil {
		err = s.conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(login), dbus.WithMatchPathNamespace(loginPath))
	}
	if err != nil {
		return fmt.Errorf("the system bus: %w", err)
	}
	return nil
}

// owner returns the unique name of logind, "" if it does not run.
func (s *source) owner(ctx context.Context) (name string, err error) {
	err = call(ctx, s.conn.Object(busName, busPath), busName+".GetNameOwner", &name, login)
	if refused, ok := errors.AsType[dbus.Error](err); ok && refused.Name == busName+".Error.NameHasNoOwner" {
		return "", nil
	}
	return name, err
}

// call calls a method that has one result, and starts nobody for it.
func call(ctx context.Context, o dbus.BusObject, method string, result any, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := o.CallWithContext(ctx, method, dbus.FlagNoAutoStart, args...).Store(result); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// begin finds out how things are, and tells of what has happened while nobody listened.
func (s *source) begin(ctx context.Context) error {
	var sleeping dbus.Variant
	err := call(ctx, s.conn.Object(login, loginPath), properties+".Get", &sleeping, manager, "PreparingForSleep")
	if err != nil {
		return err
	}
	if sleeping.Value() == true {
		s.w.tell(Suspend)
	}
	late := s.inhibit(ctx)
	if err := s.refresh(ctx); err != nil {
		return err
	}
	s.w.note("", late)
	return nil
}

// inhibit has the system wait for us before it sleeps, by a connection of its own: the
// answer is a file descriptor. It returns why the system does not wait, "" if it does.
func (s *source) inhibit(ctx context.Context) (late string) {
	if s.delay != nil || !s.w.wants(Suspend) {
		return ""
	}
	if err := s.takeDelay(ctx); err != nil {
		return "the system does not wait for the tokens' lock before it sleeps: " + err.Error()
	}
	return ""
}

func (s *source) takeDelay(ctx context.Context) error {
	c, err := dial(ctx)
	if err != nil {
		return err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return errors.Join(errors.New("not a unix socket"), c.Close())
	}
	conn, err := dbus.DialUnix(u, dbus.WithContext(ctx))
	if err != nil {
		return errors.Join(err, c.Close())
	}
	if err := introduce(conn); err != nil {
		return err
	}
	defer conn.Close() // the descriptor is what counts
	var fd dbus.UnixFD
	err = call(ctx, conn.Object(login, loginPath), manager+".Inhibit", &fd, "sleep", "kubehsm",
		"Tokens are locked first", "delay")
	if err == nil {
		s.delay = os.NewFile(uintptr(fd), "inhibitor")
	}
	return err
}

// release lets the system sleep.
func (s *source) release() {
	if s.delay != nil {
		_ = s.delay.Close() // a pipe that nothing is written to
		s.delay = nil
	}
}

// handle takes a signal of logind's.
func (s *source) handle(ctx context.Context, m *dbus.Signal) error {
	switch m.Name {
	case manager + ".PrepareForSleep":
		if len(m.Body) != 1 {
			return nil
		}
		if m.Body[0] == true {
			s.w.tell(Suspend)
			s.release()
		} else {
			s.w.note("", s.inhibit(ctx))
		}
	case session + ".Lock":
		if _, ours := s.sessions[m.Path]; ours {
			s.w.tell(ScreenLock)
		}
	case manager + ".SessionNew", manager + ".SessionRemoved":
		return s.refresh(ctx)
	case properties + ".PropertiesChanged":
		if _, ours := s.sessions[m.Path]; ours && concerns(m.Body, "LockedHint") {
			return s.refresh(ctx)
		}
	}
	return nil
}

// concerns reports whether the body of a PropertiesChanged names the property.
func concerns(body []any, name string) bool {
	if len(body) != 3 {
		return false
	}
	changed, _ := body[1].(map[string]dbus.Variant)
	gone, _ := body[2].([]string)
	_, is := changed[name]
	return is || slices.Contains(gone, name)
}

// listed is a session as logind lists it.
type listed struct {
	ID   string
	UID  uint32
	User string
	Seat string
	Path dbus.ObjectPath
}

// refresh looks at the user's sessions, and tells of what has changed since it last did.
func (s *source) refresh(ctx context.Context) error {
	var all []listed
	if err := call(ctx, s.conn.Object(login, loginPath), manager+".ListSessions", &all); err != nil {
		return err
	}
	now := map[dbus.ObjectPath]bool{}
	for _, l := range all {
		if int(l.UID) != os.Getuid() {
			continue
		}
		locked, err := s.isLocked(ctx, l.Path)
		if refused, ok := errors.AsType[dbus.Error](err); ok && refused.Name == busName+".Error.UnknownObject" {
			continue // The session has ended meanwhile.
		}
		if err != nil {
			return err
		}
		now[l.Path] = locked
	}
	before := s.sessions
	s.sessions = now
	for path, was := range before {
		if !was && now[path] {
			s.w.tell(ScreenLock)
			break
		}
	}
	return nil
}

// isLocked reports whether the screen of a session is locked.
func (s *source) isLocked(ctx context.Context, path dbus.ObjectPath) (bool, error) {
	var hint dbus.Variant
	if err := call(ctx, s.conn.Object(login, path), properties+".Get", &hint, session, "LockedHint"); err != nil {
		return false, err
	}
	locked, _ := hint.Value().(bool)
	return locked, nil
}
