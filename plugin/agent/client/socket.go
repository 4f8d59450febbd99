package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// DialBridge connects to the bridge over the agent's socket, where the system tells the agent
// which process connects. Of a process that has read a PIN it does not tell which sockets it has.
func DialBridge(ctx context.Context, d home.Dirs) (net.Conn, error) {
	conn, err := DialSocket(ctx, d.Settled().Socket())
	if err != nil {
		return nil, err
	}
	r := message.PlainRequest{Header: link.Header{V: wire.Version, Op: message.OpBridge}}
	if err := wire.WriteJSON(conn, r); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// DialSocket connects to the agent's socket at path. Errors: [ErrNotRunning] if no agent
// listens there, or those of [socket.Dial].
func DialSocket(ctx context.Context, path string) (net.Conn, error) {
	conn, err := socket.Dial(ctx, path)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, hint.With(ErrNotRunning, "it starts with the next command that needs it")
	}
	return nil, fmt.Errorf("agent: %w", err)
}
