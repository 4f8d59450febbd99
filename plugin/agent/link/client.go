package link

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// Client is the end of a connection that asks. Its requests run one after another.
type Client struct {
	conn  net.Conn
	codes Codes
	mu    sync.Mutex // lock of one request at a time
	send  sync.Mutex // lock of one frame at a time
}

// NewClient asks over c, whose errors have codes.
func NewClient(c net.Conn, codes Codes) *Client { return &Client{conn: c, codes: codes} }

// Conn is the connection itself.
func (c *Client) Conn() net.Conn { return c.conn }

// Close ends the connection, and cancels what is asked for.
func (c *Client) Close() error {
	if err := c.conn.Close(); !errors.Is(err, net.ErrClosed) { // a call that was cancelled has closed it
		return err
	}
	return nil
}

// Lost says that a connection broke, and why: [os.ErrDeadlineExceeded] if the server
// gave no sign of life.
type Lost struct{ Err error }

// Error implements error.
func (l *Lost) Error() string { return "the connection was lost: " + l.Err.Error() }

// Unwrap returns why.
func (l *Lost) Unwrap() error { return l.Err }

// Silent tells whether the server is there and gave no sign of life.
func (l *Lost) Silent() bool { return errors.Is(l.Err, os.ErrDeadlineExceeded) }

// Options say how a request is made.
type Options struct {
	// Prompter is asked what the server asks; nil is nobody.
	Prompter ask.Func
	// Waiting, if not nil, shows why the request waits, until done is called. It
	// returns at once, and may wait a moment before it shows anything.
	Waiting func(ask.Wait) (done func())
	// Silence is how long the server may be without a word; 0 is without end.
	Silence time.Duration
	// Limit is how long the server may take, but for the time in which a person is asked for
	// a PIN or a yes; 0 is without end.
	Limit time.Duration
	// Secret, if not nil, is sent after the request.
	Secret *hsm.Secret
	// Received, if not nil, takes a secret that comes before the answer, and owns it.
	Received func(*hsm.Secret)
	// Finishing is told while the server is at something that must not be left half-way.
	Finishing hsm.Finishing
	// Outcome is how long the client waits for the answer after the context has ended and the
	// server has been told. The time does not run while the server finishes work that must not
	// be interrupted. With 0 the client does not wait.
	Outcome time.Duration
	// Left, if not nil, is called if the answer does not come within Outcome.
	Left func()
	// Offered, if not nil, is told when the server knows that it can ask.
	Offered func()
}

// Call makes a request, serves the questions that come meanwhile, and puts the answer
// into out unless that is nil. A cancelled ctx closes the connection, at least for what
// is sent, and so cancels the questions and the work. Errors: ctx's, [ErrSlow], [*Lost], [wire.ErrFrame] and those
// of the operation.
func (c *Client) Call(ctx context.Context, r Request, out any, o Options) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, clock, stop := within(ctx, o.Limit)
	defer stop()
	finishing := newFinishing(o.Finishing)
	defer finishing.end()
	defer c.cancel(ctx, o, finishing)()
	h := r.Head()
	h.V, h.Finishing = wire.Version, o.Finishing != nil
	h.Waits, h.Libraries = o.Waiting != nil, o.Waiting != nil
	if err := c.request(r, o.Secret); err != nil {
		return lost(ctx, err)
	}
	prompts := newPrompts(ctx, c, o, clock)
	defer prompts.close()
	for {
		f, err := wire.ReadWithin(c.conn, o.Silence)
		if err != nil {
			return lost(ctx, err)
		}
		if f.Kind == wire.KindSecret && o.Received != nil {
			o.Received(hsm.NewSecret(f.Payload))
			continue
		}
		var e event
		if err := f.Decode(&e); err != nil {
			clear(f.Payload)
			return err
		}
		switch {
		case e.Error != nil:
			err := c.codes.Error(e.Error)
			if ctx.Err() != nil && errors.Is(err, hsm.ErrCancelled) {
				return lost(ctx, err) // the server's words for the end of ctx
			}
			return err
		case e.Prompt != nil:
			if err := prompts.show(*e.Prompt); err != nil {
				return err
			}
		case e.Finishing != 0:
			finishing.note(e.Finishing > 0)
		case e.Offered:
			if o.Offered != nil {
				o.Offered()
			}
		case e.Done != 0:
			prompts.done(e.Done)
		case e.Shared:
			prompts.share()
		case e.Beat:
		case out != nil:
			return f.Decode(out)
		default:
			return nil
		}
	}
}

// AwaitEnd returns nil when the server has closed the connection. Errors: ctx's, and
// [*Lost] if the server is without a word for longer than silence.
func (c *Client) AwaitEnd(ctx context.Context, silence time.Duration) error {
	defer c.cancelWith(ctx)()
	var err error
	for err == nil { // beats are signs of life
		_, err = wire.ReadWithin(c.conn, silence)
	}
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return lost(ctx, err)
	}
	return nil
}

// cancel closes the connection when ctx ends: the server cancels the work then. The answer
// to what was at its end is awaited for a while.
func (c *Client) cancel(ctx context.Context, o Options, f *finishing) (stop func()) {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if o.Outcome == 0 || !ok {
		stop := c.cancelWith(ctx)
		return func() { stop() }
	}
	answered := make(chan struct{})
	end := context.AfterFunc(ctx, func() {
		if !errors.Is(context.Cause(ctx), ErrSlow) && half.CloseWrite() == nil {
			if !f.await(answered, o.Outcome) && o.Left != nil {
				o.Left()
			}
		}
		_ = c.conn.Close() // the reader reports the error
	})
	return func() { close(answered); end() }
}

// cancelWith closes the connection when ctx ends: the server cancels the work then.
func (c *Client) cancelWith(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = c.conn.Close() })
}

func (c *Client) write(v any) error {
	c.send.Lock()
	defer c.send.Unlock()
	return wire.WriteJSON(c.conn, v)
}

// request sends a request, and the secret that belongs to it.
func (c *Client) request(r Request, secret *hsm.Secret) error {
	c.send.Lock()
	defer c.send.Unlock()
	if err := wire.WriteJSON(c.conn, r); err != nil || secret == nil {
		return err
	}
	return wire.WriteFrame(c.conn, wire.KindSecret, secret.Bytes())
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

func lost(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), ErrSlow):
		return ErrSlow
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return &Lost{err}
}
