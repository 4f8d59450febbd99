package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/desktop"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// agent is the state of a running agent.
type agent struct {
	o        Options
	log      *slog.Logger
	store    enrollment.Store
	sessions *bridge.Sessions
	bridge   *bridgeHost
	flights  *flights
	consents *consents
	turns    *turns
	people   *people
	policies *policies
	notify   *desktop.Notifier
	records  *records
	life     *life
	epoch    *epoch
	program  wire.Build // as it was when it started

	mu         sync.RWMutex
	targets    map[string]*target // by enrolment
	holders    map[string]*holder // by token URI
	signatures uint64             // of upstreams that are gone
	dials      uint64
}

func newAgent(o Options, log *slog.Logger, to *audit.Log, stop context.CancelFunc) (*agent, error) {
	sessions, err := bridge.NewSessions(time.Now)
	if err != nil {
		return nil, err
	}
	timeout := o.IdleTimeout
	if o.Supervised {
		timeout = 0
	}
	a := &agent{o: o, log: log, notify: desktop.New(os.Getenv), store: enrollment.NewStore(o.Dirs), sessions: sessions,
		records: newRecords(to, audit.Path(o.Dirs), o.pid, log), life: newLife(stop, sessions, timeout, o.quiet), epoch: newEpoch(),
		flights: newFlights(), consents: newConsents(), turns: newTurns(), people: newPeople(), targets: map[string]*target{}, holders: map[string]*holder{}}
	a.policies = &policies{store: a.store, records: a.records, notify: a.notify, log: log,
		lowered: func(key hsm.URI) { a.lockToken(a.holder(key), "policy") }}
	a.bridge = &bridgeHost{a: a}
	return a, nil
}

// route finds the upstream of an enrolment for the bridge.
func (a *agent) route(name string) *bridge.Upstream {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if t := a.targets[name]; t != nil && t.ready.Load() {
		return t.up
	}
	return nil
}

// holder returns the one holder of the token that a key is on.
func (a *agent) holder(key hsm.URI) *holder {
	u := key.TokenOnly()
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.holders[u.String()]
	if h == nil {
		h = newHolder(u, a.o.Tokens)
		h.tried = func(ctx context.Context, err error) { a.records.unlock(ctx, u, err) }
		h.removed = func() { a.lockToken(h, "removed") }
		h.untold = func() (string, func()) { return a.policies.notice(u) }
		a.holders[u.String()] = h
	}
	return h
}

// lock ends everything that stands on a PIN: work in progress, sessions,
// connections and tunnels with their TLS tickets, and the tokens' logins. It returns
// the tokens whose workers did not answer and were ended.
func (a *agent) lock() (ended []hsm.URI, err error) {
	var gone map[string]*target
	var holders []*holder
	a.epoch.next(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		gone = a.targets
		a.targets = map[string]*target{}
		holders = slices.Collect(maps.Values(a.holders))
		for _, t := range gone {
			a.count(t)
		}
	})

	a.sessions.Drop("")
	a.consents.forget()
	for _, t := range gone {
		t.up.CloseFor("it was locked")
	}
	errs := make([]error, len(holders))
	var wg sync.WaitGroup
	for i, h := range holders { // one that hangs leaves no other unlocked meanwhile
		wg.Go(func() { errs[i] = h.lock() })
	}
	wg.Wait()
	for i, err := range errs {
		if errors.Is(err, errEnded) {
			ended, errs[i] = append(ended, public(holders[i].uri)), nil
		}
	}
	a.log.Info("locked", "enrollments", len(gone), "tokens", len(holders), "ended", len(ended))
	return ended, errors.Join(errs...)
}

// whyLocked words the reasons of [agent.lockToken].
func whyLocked(reason string) string {
	switch reason {
	case "removed":
		return "the token was removed"
	case "policy":
		return "a consent policy was lowered, so its token was locked"
	case "idle":
		return "the token was not used for a while, so it was locked"
	}
	return "the token was unlocked for the longest time, so it was locked"
}

// lockToken is lock for what stands on one token.
func (a *agent) lockToken(h *holder, why string) {
	a.mu.Lock()
	var gone []*target
	for name, t := range a.targets {
		if t.holder == h {
			gone = append(gone, t)
			delete(a.targets, name)
			a.count(t)
		}
	}
	a.mu.Unlock()
	for _, t := range gone {
		a.sessions.Drop(t.e.Name)
		t.up.CloseFor(whyLocked(why))
		if why == "removed" {
			a.notify.Say("The token was removed: " + t.e.Name + " is locked.")
		}
	}
	r := audit.Record{Event: audit.Lock, Reason: why, Token: public(h.uri)}
	if err := h.lock(); err != nil { // its connections have gone all the same
		a.log.Error("lock", "token", h.uri.String(), "error", err)
		r.Outcome, r.Error = outcome(err)
	}
	a.log.Info("locked", "token", h.uri.String(), "why", why)
	a.records.write(r)
}

// count keeps the counters of a target that goes. a.mu is held.
func (a *agent) count(t *target) {
	s := t.up.Status()
	a.signatures += s.Signatures
	a.dials += s.Dials
}

// sweep does what time brings: ends unlock windows, forgets sessions. It tells
// whether the agent has been idle for long enough to end.
func (a *agent) sweep(now time.Time) (idle bool) {
	a.sessions.Sweep()
	a.bridge.hold(a.sessions.Clients())
	a.follow()
	a.records.recover()
	if lines, ok := a.log.Handler().(repeats); ok {
		_ = lines.flush(now) // a log that cannot be written has nowhere to say so
	}
	var latest time.Time
	for h, used := range a.uses() {
		if used.After(latest) {
			latest = used
		}
		since, signed, ok := h.window(now)
		switch {
		case !ok:
			a.letGo(h, now)
		case elapsed(since, now) >= a.o.Unlock.Max:
			a.lockToken(h, "longest-time")
		case min(elapsed(since, now), elapsed(signed, now), elapsed(used, now)) >= a.o.Unlock.Idle:
			a.lockToken(h, "idle")
		}
	}
	a.life.trim(now, latest, a.o.sweepEvery)
	return a.life.idle(now)
}

// letGo ends the hold of a token that is locked and that nothing stands on.
func (a *agent) letGo(h *holder, now time.Time) {
	if !h.unneeded(now) {
		return
	}
	a.mu.RLock()
	for _, t := range a.targets {
		if t.holder == h && t.ready.Load() { // its key wants no PIN
			a.mu.RUnlock()
			return
		}
	}
	a.mu.RUnlock()
	if err := h.lock(); err != nil {
		a.log.Warn("let go", "token", h.uri.String(), "error", err)
	}
}

// uses returns each token's last use by a request.
func (a *agent) uses() map[*holder]time.Time {
	a.mu.RLock()
	defer a.mu.RUnlock()
	all := map[*holder]time.Time{}
	for _, h := range a.holders {
		all[h] = time.Time{}
	}
	for _, t := range a.targets {
		if used := t.lastUse(); used.After(all[t.holder]) {
			all[t.holder] = used
		}
	}
	return all
}

func (a *agent) status() *Status {
	s := &Status{Version: a.o.Version, PID: a.o.pid, Started: a.life.started, Memory: memoryOf(a.o.pid), Workers: a.o.Tokens.Workers(),
		Tokens: []TokenStatus{}, Upstreams: []bridge.UpstreamStatus{}, Sessions: a.sessions.Status()}
	s.Consents, s.Fronts = a.consents.status(), a.people.fronts()
	s.Bridge, s.BridgeError = a.bridge.describe()
	s.Program, s.Supervised, s.Newer = a.program, a.o.Supervised, a.life.newer.Load()
	if e := a.records.problem.Load(); e != nil {
		s.AuditError = *e
	}
	now := time.Now()
	for h, used := range a.uses() {
		st := TokenStatus{URI: h.uri}
		since, signed, ok := h.window(now)
		if ok {
			for _, t := range []time.Time{since, signed} {
				if t.After(used) {
					used = t
				}
			}
			st.Unlocked, st.Since, st.Until = h.unlocked(), since, used.Add(a.o.Unlock.Idle)
			if end := since.Add(a.o.Unlock.Max); end.Before(st.Until) {
				st.Until = end
			}
		}
		s.Tokens = append(s.Tokens, st)
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	s.Signatures, s.Dials = a.signatures, a.dials
	for _, t := range a.targets {
		u := t.up.Status()
		s.Upstreams = append(s.Upstreams, u)
		s.Signatures += u.Signatures
		s.Dials += u.Dials
	}
	slices.SortFunc(s.Tokens, func(x, y TokenStatus) int { return cmp.Compare(x.URI.String(), y.URI.String()) })
	slices.SortFunc(s.Upstreams, func(x, y bridge.UpstreamStatus) int { return cmp.Compare(x.Enrollment, y.Enrollment) })
	return s
}
