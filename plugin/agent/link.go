package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// link is the agent's end of a client's connection.
type link struct {
	conn   net.Conn
	peer   process.ID      // the process that connected
	frames chan wire.Frame // closed when the client has gone
	ctx    context.Context
	cancel context.CancelFunc
	send   sync.Mutex
}

// errGone is the cause when a client closes its connection.
var errGone = errors.New("the client went away")

func newLink(ctx context.Context, c net.Conn) *link {
	l := &link{conn: c, peer: socket.Peer(c), frames: make(chan wire.Frame, 8)}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// read passes frames on until the client goes: that cancels what it had asked
// for. A client that sends more than anybody wants is sent away.
func (l *link) read() {
	defer close(l.frames)
	defer l.cancel()
	for {
		f, err := wire.ReadFrame(l.conn)
		if err != nil {
			return
		}
		select {
		case l.frames <- f:
		default:
			clear(f.Payload)
			return
		}
	}
}

// takeTimeout is how long a client may take for a message. What it does not read at
// once the system keeps for it, a few hundred messages: only one that has been
// suspended for long takes none.
const takeTimeout = 10 * time.Second

func (l *link) write(r reply) error {
	return l.put(func() error { return wire.WriteJSON(l.conn, r) })
}

func (l *link) writeSecret(b []byte) error {
	return l.put(func() error { return wire.WriteFrame(l.conn, wire.KindSecret, b) })
}

// put writes a message. A client that takes none is sent away: others may wait
// for what is done for it, and half a message is no message.
func (l *link) put(write func() error) error {
	l.send.Lock()
	defer l.send.Unlock()
	err := l.conn.SetWriteDeadline(time.Now().Add(takeTimeout))
	if err == nil {
		err = write()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.cancel()
		_ = l.conn.Close() // so that its reader ends, and all that it has asked for
	}
	return err
}

// answer reads one answer, and the secret that follows it if one does.
func (l *link) answer(ctx context.Context) (answer, *hsm.Secret, error) {
	f, err := l.next(ctx)
	if err != nil {
		return answer{}, nil, err
	}
	var a answer
	if err := f.Decode(&a); err != nil {
		clear(f.Payload)
		return answer{}, nil, err
	}
	if !a.Secret {
		return a, nil, nil
	}
	s, err := l.next(ctx)
	if err != nil {
		return answer{}, nil, err
	}
	if s.Kind != wire.KindSecret {
		return answer{}, nil, fmt.Errorf("%w: a secret was announced and did not come", wire.ErrFrame)
	}
	return a, hsm.NewSecret(s.Payload), nil
}

func (l *link) next(ctx context.Context) (wire.Frame, error) {
	select {
	case f, ok := <-l.frames:
		if !ok {
			return wire.Frame{}, gone(errGone)
		}
		return f, nil
	case <-ctx.Done():
		if l.ctx.Err() != nil {
			return wire.Frame{}, gone(errGone)
		}
		return wire.Frame{}, ctx.Err()
	}
}
