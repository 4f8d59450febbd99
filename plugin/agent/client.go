package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// Client is a connection to the agent. Its operations run one after another.
type Client struct {
	// beats says that the agent gives a sign of life while it works, see hello.
	beats bool

	conn net.Conn
	mu   sync.Mutex // one operation at a time
	send sync.Mutex // one frame at a time

	// Waiting, if not nil, shows why an operation waits, until done is called. It
	// returns at once, and may wait a moment before it shows anything.
	Waiting func(wire.Wait) (done func())

	offered func() // is told when the agent knows of an offer, may be nil
}

// PrepareRequest says what a session is for.
type PrepareRequest struct {
	// Enrollment is the enrolment's name.
	Enrollment string
	// Client is the program that will use the session, see [process.Parent].
	Client bridge.Client
	// Purpose is shown on prompts; its Cluster is replaced by the enrolment's name.
	Purpose hsm.Purpose
}

// Dial connects to the running agent. [ErrNotRunning] if there is none.
func Dial(ctx context.Context, d home.Dirs) (*Client, error) {
	conn, err := dialSocket(ctx, d.Socket())
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn}, nil
}

// Close ends the connection; the agent goes on.
func (c *Client) Close() error { return c.conn.Close() }

// Prepare returns a session for an enrolment, after whatever that takes: the
// agent may ask p for a PIN, a touch or a yes (p may be nil: nobody can be
// asked). A cancelled ctx cancels the prompt and the work.
//
// Errors: [enrollment.ErrUnknown], [hsm.ErrNoCertificate], [ErrCertificateExpired],
// [hsm.ErrKeyMismatch], [bridge.ErrPortTaken], [bridge.ErrUnreachable],
// [hsm.ErrNoToken], [hsm.ErrNoKey], those of [hsm.AskPIN], [ErrRejected].
func (c *Client) Prepare(ctx context.Context, r PrepareRequest, p hsm.Prompter) (Session, error) {
	out, err := c.do(ctx, request{Op: opPrepare, Enrollment: r.Enrollment, Client: r.Client, Purpose: r.Purpose}, p)
	if err != nil {
		return Session{}, err
	}
	if out.Session == nil {
		return Session{}, fmt.Errorf("%w: no session in it", wire.ErrFrame)
	}
	return *out.Session, nil
}

// Unlock asks for the PIN of the enrolment's token now, so that later commands
// need not. It does nothing when the token is unlocked.
func (c *Client) Unlock(ctx context.Context, enrollment string, p hsm.Prompter) error {
	_, err := c.do(ctx, request{Op: opUnlock, Enrollment: enrollment, Client: process.This(),
		Purpose: hsm.Purpose{Command: "kubehsm"}}, p)
	return err
}

// Status describes the agent.
func (c *Client) Status(ctx context.Context) (Status, error) {
	out, err := c.do(ctx, request{Op: opStatus}, nil)
	if err != nil {
		return Status{}, err
	}
	if out.Status == nil {
		return Status{}, fmt.Errorf("%w: no status in it", wire.ErrFrame)
	}
	return *out.Status, nil
}

// lock has the agent lock, see [Lock].
func (c *Client) lock(ctx context.Context) ([]hsm.URI, error) {
	out, err := c.do(ctx, request{Op: opLock}, nil)
	return out.Ended, err
}

// stop has the agent lock and end, see [Stop].
func (c *Client) stop(ctx context.Context) ([]hsm.URI, error) { return nil, c.endBy(ctx, opStop) }

// retire is stop, unless something is open: [ErrInUse].
func (c *Client) retire(ctx context.Context) error { return c.endBy(ctx, opRetire) }

func (c *Client) endBy(ctx context.Context, op string) error {
	if _, err := c.do(ctx, request{Op: op}, nil); err != nil {
		return err
	}
	stop := c.cancelWith(ctx)
	defer stop()
	patience := slowPatience
	if urgent(op) {
		patience = livePatience
	}
	var err error
	for err == nil { // signs of life, until the agent has ended
		_, err = wire.ReadWithin(c.conn, patience)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return c.lost(ctx, err)
	}
	return nil // what else ends the connection ends with the agent
}

// do runs one operation and serves the prompts that come meanwhile.
func (c *Client) do(ctx context.Context, req request, p hsm.Prompter) (reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stop := c.cancelWith(ctx)
	defer stop()
	req.V, req.Beats, req.Waits = protocolVersion, c.beats || urgent(req.Op), c.Waiting != nil
	patience := c.patience(req.Op)
	if err := c.write(req); err != nil {
		return reply{}, c.lost(ctx, err)
	}
	desk := newDesk(ctx, c, p)
	defer desk.close()
	for {
		f, err := wire.ReadWithin(c.conn, patience)
		if err != nil {
			return reply{}, c.lost(ctx, err)
		}
		var r reply
		if err := f.Decode(&r); err != nil {
			return reply{}, err
		}
		switch {
		case r.Error != nil:
			return reply{}, r.Error.err()
		case r.Prompt != nil:
			desk.ask(*r.Prompt)
		case r.Offered:
			if c.offered != nil {
				c.offered()
			}
		case r.Done != 0:
			desk.done(r.Done)
		case r.Shared:
			desk.share()
		case r.Beat:
		default:
			return r, nil
		}
	}
}

// cancelWith closes the connection when ctx ends: the agent cancels the work then.
func (c *Client) cancelWith(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = c.conn.Close() })
}

func (c *Client) write(v any) error {
	c.send.Lock()
	defer c.send.Unlock()
	return wire.WriteJSON(c.conn, v)
}

// answerPIN sends an answer and the secret after it, together.
func (c *Client) answerPIN(a answer, pin *hsm.Secret) error {
	c.send.Lock()
	defer c.send.Unlock()
	if err := wire.WriteJSON(c.conn, a); err != nil {
		return err
	}
	return wire.WriteFrame(c.conn, wire.KindSecret, pin.Bytes())
}

// lost words a broken connection.
func (c *Client) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		hint := "if it was suspended, let it go on; else end its process: the next command starts a new one"
		if pid := socket.PeerPID(c.conn); pid > 0 {
			hint = fmt.Sprintf("if it was suspended, `kill -CONT %d` lets it go on; else end it with `kill -KILL %d`: the next command starts a new one", pid, pid)
		}
		return hsm.WithHint(ErrNoAnswer, hint)
	}
	return hsm.WithHint(fmt.Errorf("%w: %w", ErrStopped, err), "run the command again; it starts a new agent")
}
