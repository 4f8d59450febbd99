package service

import (
	"context"
	"net"

	"github.com/kubehsm/kubehsm/plugin/socket"
)

type peerKey struct{}

// withPeer notes who is at the other end of a connection.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, socket.PeerPID(c))
}

// PeerPID is the process that a request came from, 0 if the system does not
// tell.
func PeerPID(ctx context.Context) int {
	pid, _ := ctx.Value(peerKey{}).(int)
	return pid
}
