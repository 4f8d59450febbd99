package agent

import (
	"runtime/debug"
	"time"
)

// inUse says why the agent should not end now. A session that was handed out a
// moment ago counts: its client is about to use it.
func (a *agent) inUse(now time.Time) error {
	switch {
	case a.working.Load() > 0, a.sessions.Open() > 0, now.Sub(time.Unix(0, a.issued.Load())) < a.o.quiet:
		return ErrInUse
	}
	return nil
}

// trim gives memory back to the system, once after each time of use: an agent
// is idle for most of its life.
func (a *agent) trim(now time.Time) {
	a.mu.RLock()
	last := a.lastActive
	a.mu.RUnlock()
	for _, used := range a.uses() {
		if used.After(last) {
			last = used
		}
	}
	if now.Sub(last) < a.o.sweepEvery || a.trimmed.Swap(last.UnixNano()) == last.UnixNano() {
		return
	}
	debug.FreeOSMemory()
}
