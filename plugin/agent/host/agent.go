package host

import (
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"time"

	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/away"
	"github.com/kubehsm/kubehsm/plugin/agent/consents"
	"github.com/kubehsm/kubehsm/plugin/agent/following"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/renewing"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/ask/queue"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/desktop"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/process/child"
	"github.com/kubehsm/kubehsm/plugin/settings"
)

// agent is a running agent: its parts, each of which knows those that it names.
type agent struct {
	o       Options
	program wire.Build // the program as it was at the start
	log     *slog.Logger
	records *auditing.Records
	life    *life

	sessions *bridge.Sessions
	bridge   *bridgeHost
	targets  *targets
	tokens   *token.Holders
	locks    *locks
	away     *away.Watcher

	responders *queue.Responders
	queue      *queue.Queue
	terminals  *terminals
	answers    *consents.Answers
	questions  *questions

	flights     *flights
	refusals    *refusals
	signIns     *signIns
	credentials *credentials
	signer      *externalSigner
	renewals    *renewals
}

func newAgent(o Options, program wire.Build, log *slog.Logger, to *audit.Log, stop context.CancelFunc) (*agent, error) {
	sessions, err := bridge.NewSessions(time.Now)
	if err != nil {
		return nil, err
	}
	timeout := o.IdleTimeout
	if o.Supervised {
		timeout = 0
	}
	var (
		notify     = desktop.New(os.Getenv)
		store      = enrollment.NewStore(o.Dirs)
		epoch      = newEpoch()
		flights    = newFlights()
		refusals   = newRefusals()
		prompts    = queue.New()
		answers    = consents.New()
		records    = auditing.NewRecords(to, audit.Path(o.Dirs), o.pid, log)
		life       = newLife(stop, sessions, timeout, o.quiet)
		responders = queue.NewResponders(life.started)
		terminals  = &terminals{queue: prompts, sessions: sessions, answers: answers}
		dial       = &dialSigner{responders: responders, sources: o.PINSources, state: o.Dirs.State, records: records,
			notify: notify}
		versions = &auditing.Versions{Store: store, Records: records, Notify: notify, Log: log, Changed: answers.ForgetOf}
		lock     func(h *token.Held, why string)
		tokens   = token.NewHolders(token.Options{Tokens: o.Tokens,
			Notice: func(h *token.Held) (string, func()) { return told(h, versions) },
			Removed: func(h *token.Held, disconnected bool) {
				if disconnected {
					lock(h, message.LockDisconnected)
				} else {
					lock(h, message.LockRemoved)
				}
			}})
		targets = &targets{store: store, versions: versions, tokens: tokens, sessions: sessions, signer: dial.reconnect,
			handshake: o.handshake, log: log, all: map[string]*target{}}
		locks = &locks{window: o.Unlock, epoch: epoch, targets: targets, tokens: tokens, sessions: sessions,
			answers: answers, records: records, notify: notify, log: log}
		questions = &questions{targets: targets, answers: answers, queue: prompts, responders: responders,
			terminals: terminals,
			versions:  versions, epoch: epoch, life: life, records: records, log: log,
			open: map[*message.ConsentStatus]struct{}{}}
		host    = &bridgeHost{dirs: o.Dirs, passed: o.Port, log: log}
		issuer  = &issuer{sessions: sessions, responders: responders, terminals: terminals, life: life, records: records}
		signIns = &signIns{targets: targets, bridge: host, flights: flights, refusals: refusals, epoch: epoch, issuer: issuer,
			dial: dial, records: records, log: log}
		renewals = &renewals{targets: targets, signIns: signIns, epoch: epoch, records: records, notify: notify,
			now: time.Now, offered: offerTimeout}
	)
	lock = locks.token
	renewals.renewer = &renewing.Renewer{Store: store, Off: o.Renew == settings.RenewNever,
		Ended: renewals.ended, Log: log}
	renewals.follower = &following.Follower{Every: time.Duration(o.Follow), Announced: renewals.announced, Log: log}
	signIns.offer = renewals.offer
	o.Tokens.OnEnd(records.WorkerEnded)
	host.serve = func(cert func() *tls.Certificate) *bridge.Server {
		s := bridge.NewServer(cert, sessions, targets.route, log)
		s.Denied, s.Consent, s.Whose = records.Denial, questions.consent, o.whose
		s.Revived = func(enrollment string, client bridge.Client) {
			records.Session(auditing.Requester{Enrollment: enrollment, Client: client}, nil)
		}
		return s
	}
	return &agent{o: o, program: program, log: log, records: records, life: life,
		sessions: sessions, bridge: host, targets: targets, tokens: tokens, locks: locks,
		away:       away.New(away.Locking(o.LockOn), locks.away),
		responders: responders, queue: prompts, terminals: terminals, answers: answers, questions: questions,
		flights: flights, refusals: refusals, signIns: signIns,
		credentials: &credentials{program: program, protocol: o.protocol, identify: o.identify, targets: targets,
			bridge: host,
			issuer: issuer, state: o.Dirs.State, renewer: renewals.renewer, log: log},
		signer:   &externalSigner{store: store, versions: versions, tokens: tokens, epoch: epoch, records: records},
		renewals: renewals}, nil
}

// sweep does what time brings: ends unlock windows, forgets sessions. It tells
// whether the agent has been idle for long enough to end.
func (a *agent) sweep(now time.Time) (idle bool) {
	a.sessions.Sweep()
	a.targets.follow()
	a.records.Recover()
	used := a.locks.sweep(now)
	a.life.trim(now, used, a.o.sweepEvery)
	return a.life.idle(now)
}

// status describes the agent; recent is as in [token.Held.State].
func (a *agent) status(recent bool) *message.Status {
	s := &message.Status{Version: a.o.Version, PID: a.o.pid, Started: a.life.started, Memory: child.Memory(a.o.pid),
		Workers: a.o.Tokens.Workers(), Tokens: a.locks.status(recent)}
	s.Sessions, s.OtherSessions = a.sessions.Status()
	s.Upstreams, s.Signatures, s.Dials = a.targets.status()
	s.Renewals, s.Unfollowed = a.renewals.status(), a.renewals.unfollowed()
	s.NeverFollows = a.o.Follow == settings.FollowNever
	s.Consents, s.Responders = a.questions.status(), a.responders.Open()
	s.Bridge, s.BridgeError = a.bridge.describe()
	s.Program, s.Supervised, s.Newer = a.program, a.o.Supervised, a.life.newer.Load()
	s.AuditError = a.records.Problem()
	for _, w := range a.away.Watches() {
		s.LocksOn = append(s.LocksOn, message.LockOnStatus{Reason: string(w.Event), Problem: w.Problem})
	}
	return s
}
