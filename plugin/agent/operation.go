package agent

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// serve answers one client's requests, one after another.
func (a *agent) serve(ctx context.Context, c net.Conn) {
	if err := socket.CheckPeer(c); err != nil {
		a.log.Warn("refused", "error", err)
		return
	}
	l := newLink(ctx, c)
	defer l.cancel()
	go l.read() // ends when c is closed, which our caller does
	for f := range l.frames {
		var r request
		if err := f.Decode(&r); err != nil {
			clear(f.Payload)
			a.log.Warn("refused", "error", err)
			return
		}
		a.life.active()
		if r.Op == opCredential && a.credentials.answer(l, r) {
			continue
		}
		alive := a.beat(l, r)
		answer, then := a.operate(l, r)
		if r.Op != opStop { // the client of a stop hears of the agent until the agent is gone
			alive()
		}
		if err := l.write(answer); err != nil && l.ctx.Err() == nil {
			a.log.Warn("answer", "op", r.Op, "error", err)
		}
		if then != nil {
			then()
		}
	}
}

// operate runs one operation; then is to be done once it is answered.
// What an operation means is the same in every version of the protocol, but for
// prepare and unlock: peers of two versions can always find out about each other
// and end one.
func (a *agent) operate(l *link, r request) (out reply, then func()) {
	q := requester{enrollment: r.Enrollment, client: r.Client, command: r.Purpose.Command}
	if r.Op == opPrepare || r.Op == opUnlock {
		var err error
		if q.client, q.kin, err = a.o.identify(l.peer, r.Client); err != nil {
			a.records.session(requester{enrollment: r.Enrollment, client: l.peer}, err)
			return reply{Error: toFailure(err)}, nil
		}
	}
	p := newRemotePrompter(l)
	defer p.close()
	p.who, p.understandsWaits = q.client, r.Waits
	p.shared = func() bool { return a.terminals.shared(p.who) }
	defer a.turns.shows(p)()
	var err error
	switch {
	case r.Op == opHello:
		out.Hello = a.hello(r)
	case r.Op == opStatus:
		out.Status = a.status()
	case r.Op == opLock:
		out.Ended, err = a.locks.all()
		a.records.write(audit.Record{Event: audit.Lock, Reason: "asked"})
	case r.Op == opStop:
		then = func() { a.life.end("asked") }
	case r.Op == opRetire:
		err = a.life.inUse(time.Now())
		then = func() { a.life.end("replaced") }
	case r.Op == opCredential:
		err = errInFull
	case r.V != a.o.protocol:
		err = hsm.WithHint(fmt.Errorf("%w: it speaks protocol %d, you speak %d", ErrVersion, a.o.protocol, r.V), versionHint)
	case r.Op == opPrepare:
		p.terminal = q.client.Terminal() != 0
		p.elsewhere = func() hsm.Prompter { return a.people.person(q.client) }
		p.soon = a.people.soon
		err = a.life.work(func() (err error) { out.Session, err = a.signIns.prepare(l.ctx, q, p); return err })
	case r.Op == opSign:
		err = a.life.work(func() (err error) { out.Signed, err = a.signer.sign(l.ctx, q, r.Sign, p); return err })
	case r.Op == opFront:
		p.who = l.peer
		err = a.people.offer(l, &person{p: p})
	case r.Op == opAttend:
		err = a.people.attend(l, r, p)
	case r.Op == opUnlock:
		err = a.life.work(func() error { return a.signIns.unlockAhead(l.ctx, q, p) })
	default:
		err = fmt.Errorf("%w: operation %q", wire.ErrFrame, r.Op)
	}
	if err != nil {
		return reply{Error: toFailure(err)}, nil
	}
	out.OK = true
	return out, then
}

// beat gives signs of life until it is stopped, to a client that understands them:
// at once to one that would end an agent that gives none.
func (a *agent) beat(l *link, r request) (stop func()) {
	if !r.Beats {
		return func() {}
	}
	every := beatEvery
	if urgent(r.Op) {
		every = liveEvery
		_ = l.write(reply{Beat: true}) // a client that is gone misses nothing
	}
	ctx, cancel := context.WithCancel(l.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if l.write(reply{Beat: true}) != nil {
					return
				}
			}
		}
	}()
	return func() { cancel(); <-ended } // nothing comes after the answer
}
