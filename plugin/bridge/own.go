package bridge

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// ServeConn serves the connection of a process of our user until it ends. The caller knows that owner is at
// the other end: nobody is shown whose sockets a process has that has read a PIN.
func (s *Server) ServeConn(c net.Conn, owner Client) error {
	l := &once{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.end = sync.OnceFunc(func() { close(l.closed) })
	l.conn <- &ownedConn{Conn: c, owner: owner, ended: l.end}
	if err := s.http.ServeTLS(l, "", ""); !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("bridge: %w", err)
	}
	return nil
}

// ownedConn is a connection whose owner is known.
type ownedConn struct {
	net.Conn
	owner Client
	ended func()
}

// Close implements [net.Conn].
func (c *ownedConn) Close() error {
	defer c.ended()
	return c.Conn.Close()
}

// once is a listener for one connection. It ends with that.
type once struct {
	conn   chan net.Conn
	closed chan struct{}
	end    func()
}

// Accept implements [net.Listener].
func (l *once) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *once) Close() error {
	l.end()
	return nil
}

// Addr implements [net.Listener].
func (l *once) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// accepted is the connection of a request as a listener has accepted it.
func accepted(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c
}
