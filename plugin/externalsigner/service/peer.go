package service

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/kubehsm/kubehsm/plugin/socket"
)

// PeerPID is the process that a request came from, 0 if the system does not
// tell.
func PeerPID(ctx context.Context) int {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return 0
	}
	who, _ := p.AuthInfo.(process)
	return who.pid
}

// process is who is at the other end of a connection.
type process struct {
	credentials.CommonAuthInfo
	pid int
}

// AuthType implements [credentials.AuthInfo].
func (process) AuthType() string { return "process" }

// onSocket is a transport without a handshake: the system tells who is there.
type onSocket struct{}

var _ credentials.TransportCredentials = onSocket{}

func (onSocket) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, process{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, socket.PeerPID(c)}, nil
}

func (onSocket) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("for servers only")
}

func (onSocket) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix"}
}

func (onSocket) Clone() credentials.TransportCredentials { return onSocket{} }

func (onSocket) OverrideServerName(string) error { return nil }
