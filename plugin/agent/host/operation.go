package host

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/ask/queue"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// serve answers one client's requests, one after another.
func (a *agent) serve(ctx context.Context, c net.Conn) {
	if err := socket.CheckPeer(c); err != nil {
		a.log.Warn("refused", "error", err)
		return
	}
	l := link.NewServer(ctx, c, message.Codes())
	if l.Quick(func(f wire.Frame) bool {
		a.life.active()
		return a.credentials.answer(l, f) || a.bridge.carry(l, c, f)
	}) {
		return
	}
	err := l.Serve(func(r link.Received) error {
		a.life.active()
		alive := a.beat(l, r)
		answer, then, err := a.operate(l, r)
		if r.Op != message.OpStop { // the client of a stop hears of the agent until the agent is gone
			alive()
		}
		if err != nil {
			err = l.Fail(err)
		} else {
			err = l.Answer(answer)
		}
		if err != nil && l.Context().Err() == nil {
			a.log.Warn("answer", "op", r.Op, "error", err)
		}
		if then != nil {
			then()
		}
		return nil
	})
	if err != nil {
		a.log.Warn("refused", "error", err)
	}
}

// operate runs one operation; then is to be done once it is answered.
// What an operation means is the same in every version of the protocol, but for those
// of [agent.operateFor]: peers of two versions can always find out about each other
// and end one.
func (a *agent) operate(l *link.Server, r link.Received) (out any, then func(), err error) {
	out = link.OK{OK: true}
	switch {
	case r.Op == message.OpHello:
		var q message.HelloRequest
		if err = r.Decode(&q); err == nil {
			out = message.HelloAnswer{Hello: a.hello(q.Program)}
		}
	case r.Op == message.OpStatus:
		var q message.StatusRequest
		if err = r.Decode(&q); err == nil {
			out = message.StatusAnswer{Status: a.status(q.Recent)}
		}
	case r.Op == message.OpLock:
		answer := message.LockAnswer{OK: link.OK{OK: true}}
		p := link.NewAsker(l)
		p.Waits, p.Libraries = r.Waits, r.Libraries
		answer.Ended, err = a.locks.all(message.LockAsked, p.ShowWait)
		p.Close()
		out = answer
		a.records.Write(audit.Record{Event: audit.Lock, Reason: message.LockAsked})
	case r.Op == message.OpStop:
		then = func() { a.life.end("asked") }
	case r.Op == message.OpRetire:
		if err = a.life.inUse(time.Now()); err == nil {
			then = func() { a.life.end("replaced") }
		}
	case r.Op == wire.OpCredential:
		err = errInFull
	case r.V != a.o.protocol:
		err = hint.With(fmt.Errorf("%w: it speaks protocol %d, you speak %d", message.ErrVersion, a.o.protocol, r.V),
			message.VersionHint)
	default:
		p := link.NewAsker(l)
		defer p.Close()
		p.Waits, p.Libraries = r.Waits, r.Libraries
		p.Shared = func() bool { return a.terminals.shared(p.Client) }
		defer a.queue.Shows(p)()
		err = a.operateFor(l, r, p, &out)
	}
	return out, then, err
}

// operateFor runs an operation that may ask, p, and puts the answer into out, if it has
// one.
func (a *agent) operateFor(l *link.Server, r link.Received, p *link.Asker, out *any) error {
	switch r.Op {
	case message.OpPrepare, message.OpUnlock:
		var q message.SessionRequest
		if err := r.Decode(&q); err != nil {
			return err
		}
		who := auditing.Requester{Enrollment: q.Enrollment, Command: q.Purpose.Command}
		peer, err := l.Peer()
		if err == nil {
			who.Client, who.Kin, err = a.o.identify(peer, q.Own, q.Purpose)
		}
		if err != nil {
			a.records.Session(auditing.Requester{Enrollment: q.Enrollment, Client: peer}, err)
			return err
		}
		p.Client = who.Client
		if r.Op == message.OpUnlock {
			return a.life.work(func() error { return a.signIns.unlockAhead(l.Context(), who, q.Token, p, q.Given) })
		}
		p.Else = a.responders.Instead(who.Client)
		return a.life.work(func() error {
			prepare := a.signIns.prepare
			if q.Look {
				prepare = a.signIns.look
			}
			s, err := prepare(l.Context(), who, q.Authorities, p)
			*out = message.SessionAnswer{Session: s}
			return err
		})
	case wire.OpSign:
		var q message.SignRequest
		if err := r.Decode(&q); err != nil {
			return err
		}
		signer, err := l.Peer()
		if err != nil {
			return err
		}
		who := a.signerFor(signer, q)
		p.Client = who.Client
		return a.life.work(func() error {
			s, err := a.signer.sign(l.Context(), who, q.Sign, p)
			*out = message.SignAnswer{Signed: s}
			return err
		})
	case message.OpRespond:
		var err error
		if p.Client, err = l.Peer(); err != nil {
			return err
		}
		return a.offer(l, &queue.Responder{Person: p})
	case message.OpAttend:
		var q message.AttendRequest
		if err := r.Decode(&q); err != nil {
			return err
		}
		p.Client = q.Client
		// The attendant's word is enough for which client it attends: it is a process of the
		// same user, and could as well read that client's terminal.
		if !q.Client.Known() || !q.Client.Alive() {
			return fmt.Errorf("attend process %d: it does not run", q.Client.PID)
		}
		return a.offer(l, &queue.Responder{Person: p, Client: q.Client})
	}
	return fmt.Errorf("%w: operation %q", wire.ErrFrame, r.Op)
}

// signerFor says for whom a signature is: for the program that started the signer, if the
// system tells that it did.
func (a *agent) signerFor(signer process.ID, q message.SignRequest) auditing.Requester {
	client, kin, err := a.o.identify(signer, false, q.Purpose)
	if err != nil {
		return auditing.Requester{Client: signer}
	}
	return auditing.Requester{Client: client, Kin: kin, Command: q.Purpose.Command}
}

// offer keeps who among those who can be asked until the connection ends.
func (a *agent) offer(l *link.Server, who *queue.Responder) error {
	defer a.responders.Add(who)()
	if err := l.Offered(); err != nil {
		return err
	}
	<-l.Context().Done()
	return nil
}

// hello says who the agent is, to a client that may replace it.
func (a *agent) hello(program wire.Build) *message.Hello {
	if program.Path != "" && program.Replaces(a.program) {
		a.life.newer.Store(&program)
	}
	return &message.Hello{Protocol: a.o.protocol, Program: a.program, Supervised: a.o.Supervised,
		Unlocked: a.locks.unlocked(), Beats: true}
}

// beat gives signs of life until it is stopped, to a client that understands them:
// at once to one that would end an agent that gives none.
func (a *agent) beat(l *link.Server, r link.Received) (stop func()) {
	if !r.Beats {
		return func() {}
	}
	if !message.Urgent(r.Op) {
		return l.BeatEvery(beatEvery)
	}
	_ = l.Beat() // a client that is gone misses nothing
	return l.BeatEvery(liveEvery)
}

// How often a client hears that the agent lives.
const (
	beatEvery = 3 * time.Second
	liveEvery = 250 * time.Millisecond // interval of urgent operations
)
