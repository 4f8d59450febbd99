package agent

import (
	"context"
	"fmt"
	"net"

	"github.com/kubehsm/kubehsm/hsm"
)

// serve answers one client's requests, one after another.
func (a *agent) serve(ctx context.Context, c net.Conn) {
	if err := checkPeer(c); err != nil {
		a.log.Warn("refused", "error", err)
		return
	}
	l := newLink(ctx, c)
	defer l.cancel()
	go l.read() // ends when c is closed, which our caller does
	for f := range l.frames {
		var r request
		if err := f.decode(&r); err != nil {
			clear(f.payload)
			a.log.Warn("refused", "error", err)
			return
		}
		a.active()
		answer, then := a.operate(l, r)
		if err := l.write(answer); err != nil && l.ctx.Err() == nil {
			a.log.Warn("answer", "op", r.Op, "error", err)
		}
		if then != nil {
			then()
		}
	}
}

// operate runs one operation; then is to be done once it is answered.
func (a *agent) operate(l *link, r request) (out reply, then func()) {
	p := &remotePrompter{link: l}
	defer p.close()
	var err error
	switch {
	case r.V != protocolVersion:
		err = hsm.WithHint(fmt.Errorf("%w: it speaks protocol %d, you speak %d", ErrVersion, protocolVersion, r.V),
			"end it with `kubehsm agent stop`, or by its process id; the next command starts the new one")
	case r.Op == opPrepare:
		out.Session, err = a.prepare(l.ctx, r, p)
	case r.Op == opUnlock:
		err = a.unlockFor(l.ctx, r, p)
	case r.Op == opStatus:
		out.Status = a.status()
	case r.Op == opLock:
		err = a.lock()
	case r.Op == opStop:
		then = a.stop
	default:
		err = fmt.Errorf("%w: operation %q", errFrame, r.Op)
	}
	if err != nil {
		return reply{Error: toFailure(err)}, nil
	}
	out.OK = true
	return out, then
}
