package host

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/bridge"
)

// life knows how long the agent has been idle, and why it ends.
type life struct {
	stop       context.CancelFunc
	sessions   *bridge.Sessions
	timeout    time.Duration // the time without use after which it ends; 0: it does not
	quiet      time.Duration // time for which a session that was handed out counts as used
	started    time.Time
	working    atomic.Int64               // prepares and unlocks in progress
	lastActive atomic.Pointer[time.Time]  // time of the last request
	issued     atomic.Int64               // time of the last session handed out, Unix nanoseconds
	trimmed    atomic.Int64               // the use after which memory was given back, Unix nanoseconds
	newer      atomic.Pointer[wire.Build] // a program that would replace this agent
	why        atomic.Pointer[string]     // the reason for the end
}

func newLife(stop context.CancelFunc, sessions *bridge.Sessions, timeout, quiet time.Duration) *life {
	l := &life{stop: stop, sessions: sessions, timeout: timeout, quiet: quiet, started: time.Now()}
	l.active()
	return l
}

// end ends the agent, for the first reason that is given.
func (l *life) end(why string) {
	l.why.CompareAndSwap(nil, &why)
	l.stop()
}

// reason is why the agent ends.
func (l *life) reason() string {
	if why := l.why.Load(); why != nil {
		return *why
	}
	return "signal"
}

// active notes that somebody wanted something.
func (l *life) active() {
	now := time.Now()
	l.lastActive.Store(&now)
}

// work counts an operation that somebody waits for.
func (l *life) work(f func() error) error {
	l.working.Add(1)
	defer l.working.Add(-1)
	return f()
}

// handedOut notes that a session was handed out.
func (l *life) handedOut() { l.issued.Store(time.Now().UnixNano()) }

// inUse says why the agent should not end now. A session that was handed out a
// moment ago counts: its client is about to use it.
func (l *life) inUse(now time.Time) error {
	if l.working.Load() > 0 || l.sessions.Open() > 0 || now.Sub(time.Unix(0, l.issued.Load())) < l.quiet {
		return message.ErrInUse
	}
	return nil
}

// idle tells whether nobody has a session or has wanted anything for so long that the
// agent ends.
func (l *life) idle(now time.Time) bool {
	return l.timeout > 0 && elapsed(*l.lastActive.Load(), now) >= l.timeout && l.sessions.Active() == 0
}

// trim gives memory back to the system, once after each time of use, when pause has
// gone by: an agent is idle for most of its life. used is when a token was last used.
func (l *life) trim(now, used time.Time, pause time.Duration) {
	last := *l.lastActive.Load()
	if used.After(last) {
		last = used
	}
	if now.Sub(last) < pause || l.trimmed.Swap(last.UnixNano()) == last.UnixNano() {
		return
	}
	debug.FreeOSMemory()
}

// elapsed is the time from one moment to another by the clock that went further.
// The monotonic one may stand still while the machine sleeps (clock_gettime(2)),
// the other one can be set back: neither keeps a token unlocked.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// epoch is the time between two locks, which end what runs in it.
type epoch struct {
	mu  sync.RWMutex
	ctx context.Context
	end context.CancelCauseFunc
}

func newEpoch() *epoch {
	e := &epoch{}
	e.ctx, e.end = context.WithCancelCause(context.Background())
	return e
}

// next ends the epoch and begins the next one, in which nothing is left of what
// forget forgets.
func (e *epoch) next(forget func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.end(message.ErrLocked)
	e.ctx, e.end = context.WithCancelCause(context.Background())
	forget()
}

// untilLocked ends ctx when the agent is locked.
func (e *epoch) untilLocked(ctx context.Context) (context.Context, context.CancelFunc) {
	e.mu.RLock()
	epoch := e.ctx
	e.mu.RUnlock()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(epoch, func() { cancel(context.Cause(epoch)) })
	return ctx, func() { stop(); cancel(nil) }
}

// lockedOr is how work ended that [epoch.untilLocked] bounds: err, unless it was a lock.
func lockedOr(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), message.ErrLocked) {
		return message.ErrLocked
	}
	return err
}
