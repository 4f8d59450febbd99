package agent

import (
	"context"
	"log/slog"
	"os"
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
	tokens   *heldTokens
	targets  *targets
	locks    *locks
	notify   *desktop.Notifier
	records  *records
	life     *life
	epoch    *epoch
	program  wire.Build // as it was when it started
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
		flights: newFlights(), consents: newConsents(), turns: newTurns(), people: newPeople()}
	a.policies = &policies{store: a.store, records: a.records, notify: a.notify, log: log,
		lowered: func(key hsm.URI) { a.locks.token(a.tokens.of(key), lockPolicy) }}
	a.tokens = &heldTokens{source: o.Tokens, tried: a.records.unlock, notice: a.policies.notice,
		removed: func(h *holder) { a.locks.token(h, lockRemoved) }, all: map[string]*holder{}}
	a.targets = &targets{store: a.store, policies: a.policies, tokens: a.tokens, sessions: sessions, signer: a.signer,
		handshake: o.handshake, log: log, all: map[string]*target{}}
	a.locks = &locks{window: o.Unlock, epoch: a.epoch, targets: a.targets, tokens: a.tokens, sessions: sessions,
		consents: a.consents, records: a.records, notify: a.notify, log: log}
	a.bridge = &bridgeHost{a: a}
	return a, nil
}

// sweep does what time brings: ends unlock windows, forgets sessions. It tells
// whether the agent has been idle for long enough to end.
func (a *agent) sweep(now time.Time) (idle bool) {
	a.sessions.Sweep()
	a.bridge.hold(a.sessions.Clients())
	a.targets.follow()
	a.records.recover()
	if lines, ok := a.log.Handler().(repeats); ok {
		_ = lines.flush(now) // a log that cannot be written has nowhere to say so
	}
	used := a.locks.sweep(now)
	a.life.trim(now, used, a.o.sweepEvery)
	return a.life.idle(now)
}

func (a *agent) status() *Status {
	s := &Status{Version: a.o.Version, PID: a.o.pid, Started: a.life.started, Memory: memoryOf(a.o.pid), Workers: a.o.Tokens.Workers(),
		Tokens: a.locks.status(time.Now()), Sessions: a.sessions.Status()}
	s.Upstreams, s.Signatures, s.Dials = a.targets.status()
	s.Consents, s.Fronts = a.consents.status(), a.people.fronts()
	s.Bridge, s.BridgeError = a.bridge.describe()
	s.Program, s.Supervised, s.Newer = a.program, a.o.Supervised, a.life.newer.Load()
	if e := a.records.problem.Load(); e != nil {
		s.AuditError = *e
	}
	return s
}
