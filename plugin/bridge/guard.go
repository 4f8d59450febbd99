package bridge

import (
	"context"
	"net"
	"sync"
)

// maxStrangers bounds the open connections of other users, who are told that
// they are not served. More are closed unheard: each takes a descriptor, and time,
// from those that are served.
const maxStrangers = 16

// guard is a listener that looks whose each connection is.
type guard struct {
	net.Listener
	whose     func(net.Conn) error
	strangers chan struct{} // holds a value for each that is open
}

func newGuard(l net.Listener, whose func(net.Conn) error) *guard {
	return &guard{l, whose, make(chan struct{}, maxStrangers)}
}

// Accept implements [net.Listener].
func (g *guard) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		stranger := g.whose(c)
		if stranger == nil {
			return c, nil
		}
		select {
		case g.strangers <- struct{}{}:
			return &strangerConn{Conn: c, err: stranger, left: sync.OnceFunc(func() { <-g.strangers })}, nil
		default:
			_ = c.Close() // nothing was said
		}
	}
}

// strangerConn is a connection that is another user's, or of which that cannot
// be told.
type strangerConn struct {
	net.Conn
	err  error
	left func()
}

// Close implements [net.Conn].
func (c *strangerConn) Close() error {
	defer c.left()
	return c.Conn.Close()
}

type strangerKey struct{}

// withStranger notes why requests of a connection are not served, if they are not.
func withStranger(ctx context.Context, c net.Conn) context.Context {
	if s, ok := accepted(c).(*strangerConn); ok {
		return context.WithValue(ctx, strangerKey{}, s.err)
	}
	return ctx
}

// strangerOf is why a request's connection is not served, or nil.
func strangerOf(ctx context.Context) error {
	err, _ := ctx.Value(strangerKey{}).(error)
	return err
}

// whose tells whether the client of a loopback connection is our user.
func whose(c net.Conn) error {
	client, server, err := ends(c)
	if err != nil {
		return err
	}
	return sameUser(client, server)
}
