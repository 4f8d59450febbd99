// Package socket is sockets between processes of one user, on Windows named pipes: a
// listener that replaces what a dead one left behind, and both ends' look at who is at the
// other one.
package socket

import (
	"errors"
	"net"
)

// Own is a listener that gives only the connections of the same user.
func Own(l net.Listener, refused func(error)) net.Listener { return own{l, refused} }

type own struct {
	net.Listener
	refused func(error)
}

// Accept implements [net.Listener].
func (o own) Accept() (net.Conn, error) {
	for {
		c, err := o.Listener.Accept()
		if err != nil {
			return nil, err
		}
		err = CheckPeer(c)
		if err == nil {
			return c, nil
		}
		o.refused(errors.Join(err, c.Close()))
	}
}
