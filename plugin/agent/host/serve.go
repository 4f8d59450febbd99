package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/filelock"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/logfile"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/pinsource"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/process/child"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/plugin/socket"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// Options say how to run an agent.
type Options struct {
	Dirs home.Dirs
	// Tokens is where the tokens come from, see [NewTokens]. It is closed at the end.
	Tokens  worker.Tokens
	Version string
	// PINSources give PINs for reconnects that nobody waits for.
	PINSources []pinsource.Entry
	// Unlock is the unlock window; zero fields get the defaults of [settings.Config].
	Unlock settings.Unlock
	// LockOn says what else locks all tokens; the zero value is nothing.
	LockOn settings.LockOn
	// Renew is [settings.RenewNever] if no certificate is renewed by itself.
	Renew settings.Renew
	// Follow is how often the agent looks whether a cluster in use has moved; 0 is [settings.DefaultFollow].
	Follow settings.Follow
	// IdleTimeout is how long the agent lives without sessions and requests; 0 is
	// an hour.
	IdleTimeout time.Duration
	// Supervised says that a service manager runs the agent: it does not end when
	// it is idle, and it ends with [ErrReplaced] when it gives way to a newer
	// program, so that the manager starts it again.
	Supervised bool
	// Port, if not nil, is the bridge's listening socket, see [PassedPort].
	Port *os.File
	// Ready, if not nil, is told when the agent listens and closed, see [ReadyFile].
	Ready *os.File

	pid        int
	protocol   int
	sweepEvery time.Duration
	quiet      time.Duration // see inUse
	handshake  time.Duration // the time for a TLS handshake, see upstream.Options
	made       func(*agent)  // is given the agent; for tests
	// identify is [identify] outside tests, and whose is nil, see [bridge.Server].
	identify func(plugin process.ID, own bool, said hsm.Purpose) (client process.ID, kin []process.ID, err error)
	whose    bridge.Whose
}

func (o *Options) defaults() {
	if o.Tokens == nil {
		o.Tokens = worker.InProcess(nil)
	}
	if o.Unlock.Idle == 0 {
		o.Unlock.Idle = settings.DefaultIdle
	}
	if o.Unlock.Max == 0 {
		o.Unlock.Max = settings.DefaultMax
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = time.Hour
	}
	if o.sweepEvery == 0 {
		o.sweepEvery = 15 * time.Second
		if o.Follow > 0 {
			o.sweepEvery = min(o.sweepEvery, time.Duration(o.Follow))
		}
	}
	o.Follow = cmp.Or(o.Follow, settings.DefaultFollow)
	if o.quiet == 0 {
		o.quiet = 2 * time.Second
	}
	if o.protocol == 0 {
		o.protocol = wire.Version
	}
	if o.identify == nil {
		o.identify = identify
	}
	o.pid = os.Getpid()
}

// ErrReplaced is how a supervised agent ends that gives way to a newer program:
// its supervisor starts it again after an error.
var ErrReplaced = errors.New("a newer program takes over")

// Serve runs the agent until ctx ends, it is told to stop, or it has been idle
// for long. If another one runs already it returns nil at once: whoever started
// this one is served by that one. It writes the audit log. It makes the process non-dumpable, locks all
// tokens when it ends.
func Serve(ctx context.Context, o Options) (err error) {
	o.defaults()
	defer func() { err = errors.Join(err, closeReady(o.Ready)) }()
	program, err := message.ThisBuild(o.Version)
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	if err := hsm.Harden(); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	if err := o.Dirs.Prepare(); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	o.Dirs = o.Dirs.Settled()
	lock, ours, err := claim(ctx, o.Dirs)
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	if !ours {
		return ready(o.Ready)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	file, err := logfile.Open(o.Dirs.LogFile())
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	log := file.Logger().With("pid", o.pid)
	if err := client.Register(o.Dirs); err != nil { // a full disk
		log.Warn("nothing says which process the agent is", "error", err)
	}
	if err := home.Sweep(o.Dirs.State); err != nil {
		log.Warn("removing what killed processes left unfinished", "error", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	records, err := audit.Open(audit.Path(o.Dirs))
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	a, err := newAgent(o, program, log, records, stop)
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	if o.made != nil {
		o.made(a)
	}
	return a.run(ctx)
}

func ready(f *os.File) error {
	if f == nil {
		return nil
	}
	_, err := f.WriteString(child.ReadyLine)
	return errors.Join(err, f.Close())
}

func closeReady(f *os.File) error {
	if f == nil {
		return nil
	}
	if err := f.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// claim takes the agent's lock, which the system frees whatever becomes of us.
// Where another process has it, that one's socket is awaited: it may be starting,
// or ending, in which case the lock comes free.
func claim(ctx context.Context, d home.Dirs) (_ filelock.Lock, ours bool, err error) {
	lock, err := home.Lock(d.AgentLock())
	if err != nil {
		return lock, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, client.StartTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ours, err = lock.TryLock(); err != nil {
			return lock, false, err
		}
		if ours {
			return lock, true, nil
		}
		if c, err := client.Dial(ctx, d); err == nil {
			return lock, false, c.Close()
		}
		select {
		case <-ctx.Done():
			return lock, false, fmt.Errorf("another agent holds %s but does not listen: %w", lock.Path(), ctx.Err())
		case <-tick.C:
		}
	}
}

// run listens and serves until ctx ends.
func (a *agent) run(ctx context.Context) (err error) {
	l, err := socket.Listen(a.o.Dirs.Socket())
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	name, err := socket.TakeName(a.o.Dirs.Socket())
	if err != nil {
		return errors.Join(fmt.Errorf("agent: %w", err), l.Close())
	}
	if err := a.bridge.ensure(); err != nil { // every prepare tries again, and says so
		a.log.Error("bridge", "error", err)
	}
	a.log.Info("listening", "version", a.o.Version)
	a.records.Write(audit.Record{Event: audit.AgentStart, Version: a.o.Version})
	if err := ready(a.o.Ready); err != nil && !errors.Is(err, os.ErrClosed) {
		a.log.Warn("whoever started the agent does not wait for it", "error", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { a.watch(ctx, name) })
	wg.Go(func() { a.away.Run(ctx) })
	conns := newConnSet()
	wg.Go(func() { a.accept(ctx, l, conns, &wg) })
	<-ctx.Done()
	// The socket goes first, so that nobody comes in any more and the next agent
	// may start; the lock goes last.
	err = errors.Join(name.Remove(), l.Close())
	_, lockErr := a.locks.all("", nil)
	err = errors.Join(err, lockErr, a.bridge.close(), a.o.Tokens.Close())
	conns.close()
	wg.Wait()
	a.renewals.work.Wait()
	why := a.life.reason()
	a.log.Info("stopped", "why", why, "error", err)
	a.records.Write(audit.Record{Event: audit.AgentStop, Reason: why})
	if why == "replaced" && a.o.Supervised {
		err = errors.Join(err, ErrReplaced)
	}
	return err
}

// watch lets time pass.
func (a *agent) watch(ctx context.Context, name socket.Name) {
	tick := time.NewTicker(a.o.sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			switch {
			case name.Lost():
				// The session folder goes when its user logs out. An agent that cannot be
				// told to lock must not stay unlocked, nor keep the bridge's port from its
				// successor.
				a.life.end("unreachable")
			case a.sweep(now):
				a.life.end("idle")
			default:
				a.renewals.sweep(ctx, now)
			}
		}
	}
}

func (a *agent) accept(ctx context.Context, l net.Listener, conns *connSet, wg *sync.WaitGroup) {
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return
		}
		if err != nil { // out of descriptors, say: the next one may work
			a.log.Error("accept", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		if !conns.add(c) {
			return
		}
		wg.Go(func() {
			defer conns.remove(c)
			a.serve(ctx, c)
		})
	}
}

// connSet closes all connections at the end.
type connSet struct {
	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

func newConnSet() *connSet { return &connSet{open: map[net.Conn]struct{}{}} }

func (s *connSet) add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return false
	}
	s.open[c] = struct{}{}
	return true
}

func (s *connSet) remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	_ = c.Close() // either end may have done so
}

func (s *connSet) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.open {
		_ = c.Close() // the client sees the end of the agent
	}
}
