package service

import (
	"context"
	"net"
	"strconv"

	grpcpeer "google.golang.org/grpc/peer"

	"github.com/kubehsm/kubehsm/plugin/socket"
)

// peer is the process at the other end of a connection, as its address: that of
// a unix socket's client says nothing.
type peer int

// Network implements [net.Addr].
func (peer) Network() string { return "process" }

func (p peer) String() string { return strconv.Itoa(int(p)) }

// named is a listener of connections with a [peer].
type named struct{ net.Listener }

// Accept implements [net.Listener].
func (l named) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return namedConn{c, peer(socket.PeerPID(c))}, nil
}

type namedConn struct {
	net.Conn
	peer peer
}

// RemoteAddr implements [net.Conn].
func (c namedConn) RemoteAddr() net.Addr { return c.peer }

// PeerPID is the process that a request came from, 0 if the system does not
// tell.
func PeerPID(ctx context.Context) int {
	client, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return 0
	}
	p, _ := client.Addr.(peer)
	return int(p)
}
