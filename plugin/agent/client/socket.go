package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

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
