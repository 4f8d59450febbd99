package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// Whose finds the process that holds the client's end of a connection, on which the
// certificate of a session was shown: the session's client, a process that this one
// has started, or one of kin, those that have started the client. told is false where
// the system does not tell. An error says that it is none of these, and owner is then
// one that holds it, if there is; or it is [errHidden] or [errLook].
type Whose func(client, server netip.AddrPort, of Client, kin []Client) (owner Client, told bool, err error)

// Why it cannot be told whose a connection is, on a system that tells.
var (
	errHidden = errors.New("the kernel does not show kubehsm's agent which files that program has open, so that nobody can tell whose " +
		"this connection is: it has file capabilities, or the two are in different user namespaces")
	errLook = errors.New("whose this connection is cannot be found out now")
)

// line is a connection of a client. Whose it is does not change and costs a look
// through the descriptors of a process, so it is found out once.
type line struct {
	conn   net.Conn
	number uint64 // tells connections apart; from 1

	mu    sync.Mutex
	of    *session // the session that owner, told and err are known for
	owner Client
	told  bool
	err   error
}

type lineKey struct{}

var lines atomic.Uint64

// withLine notes a request's connection.
func withLine(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(withStranger(ctx, c), lineKey{}, &line{conn: c, number: lines.Add(1)})
}

// lineOf is the connection of a request.
func lineOf(ctx context.Context) *line { return ctx.Value(lineKey{}).(*line) }

// asker is who sends a request: a process or, where the system does not tell which,
// a connection.
type asker struct {
	client Client
	conn   uint64 // 0 where the process is known
}

// asker finds who sends the requests of a connection with the certificate of e.
func (s *Server) asker(r *http.Request, e *session) (asker, *refusal) {
	l := lineOf(r.Context())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of != e {
		l.owner, l.told, l.err = s.ownerOf(l.conn, e)
		if !errors.Is(l.err, errLook) { // that one is made again with the next request
			l.of = e
		}
	}
	switch {
	case errors.Is(l.err, errLook):
		return asker{}, &refusal{http.StatusServiceUnavailable, "", l.err.Error()}
	case errors.Is(l.err, errHidden):
		return asker{}, &refusal{http.StatusForbidden, DeniedHidden, l.err.Error()}
	case l.err != nil:
		return asker{}, &refusal{http.StatusUnauthorized, DeniedProcess, l.err.Error()}
	case !l.told:
		return asker{e.client, l.number}, nil
	}
	return asker{client: l.owner}, nil
}

func (s *Server) ownerOf(c net.Conn, e *session) (owner Client, told bool, err error) {
	if own, ok := accepted(c).(*ownedConn); ok {
		if own.owner != e.client {
			return own.owner, true, e.notOf(fmt.Errorf("this connection belongs to process %d", own.owner.PID))
		}
		if told = own.owner.Known(); told {
			e.told.Store(true)
			e.met.Store(true)
		}
		return own.owner, told, nil
	}
	client, server, err := ends(c)
	if err != nil {
		return Client{}, false, err
	}
	whose := s.Whose
	if whose == nil {
		whose = whoseSocket
	}
	kin := e.kin
	if e.met.Load() { // the client connects itself
		kin = nil
	}
	if owner, told, err = whose(client, server, e.client, kin); err != nil {
		return owner, told, e.notOf(err)
	}
	if told {
		e.told.Store(true)
	}
	switch {
	case told && owner == e.client && owner.Known() && owner.Alive():
		e.met.Store(true)
	case told && slices.Contains(kin, owner):
		e.adopted.Store(&owner)
	}
	return owner, told, nil
}

// notOf says that a connection is not that of the session's client.
func (e *session) notOf(err error) error {
	if errors.Is(err, errHidden) || errors.Is(err, errLook) {
		return fmt.Errorf("the certificate was made for process %d, and %w", e.client.PID, err)
	}
	return fmt.Errorf("the certificate was made for process %d, and %w; each program has to run `kubehsm credential` itself",
		e.client.PID, err)
}

// ends are the addresses of a connection.
func ends(c net.Conn) (client, server netip.AddrPort, err error) {
	if client, err = netip.ParseAddrPort(c.RemoteAddr().String()); err != nil {
		return client, server, err
	}
	server, err = netip.ParseAddrPort(c.LocalAddr().String())
	return client, server, err
}
