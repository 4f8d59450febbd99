package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// The client's errors, beside those that the agent sends.
var (
	// ErrNotRunning says that no agent answers on the socket.
	ErrNotRunning = errors.New("the agent is not running")
	// ErrImpostor says that another process listens in the agent's place.
	ErrImpostor = errors.New("another program listens in the agent's place")
	// ErrNoAnswer says that the agent is there and gives no sign of life.
	ErrNoAnswer = fmt.Errorf("the agent does not answer: %w", os.ErrDeadlineExceeded)
)

// Client is a connection to the agent. Its operations run one after another.
type Client struct {
	// Waiting, if not nil, shows why an operation waits, until done is called. It
	// returns at once, and may wait a moment before it shows anything.
	Waiting func(ask.Wait) (done func())
	// Given says that a source gives the PIN to [Client.Unlock]: it does not wait for the
	// answer to a question for the PIN that is open elsewhere, and that is withdrawn.
	Given bool

	link *link.Client
	// beats says that the agent gives a sign of life while it works, see hello.
	beats bool
}

// PrepareRequest says what a session is for.
type PrepareRequest struct {
	// Enrollment is the enrollment's name.
	Enrollment string
	// Own wants the session for this program, and not for the one that has started it.
	Own bool
	// Purpose is shown on prompts; its Cluster is replaced by the enrollment's name.
	Purpose hsm.Purpose
	// Authorities are those that the client verifies the bridge with, as PEM; empty where
	// it does not say so.
	Authorities []byte
	// Look wants a session only if that takes no PIN, touch or yes: [hsm.ErrPINRequired] if it does.
	Look bool
}

// Dial connects to the running agent. Errors: [ErrNotRunning] if there is none, [ErrImpostor].
func Dial(ctx context.Context, d home.Dirs) (*Client, error) {
	d = d.Settled()
	conn, err := DialSocket(ctx, d.Socket())
	if err == nil {
		err = checkAgent(conn, d)
	}
	if err != nil {
		return nil, err
	}
	return &Client{link: link.NewClient(conn, message.Codes())}, nil
}

// Close ends the connection; the agent goes on.
func (c *Client) Close() error { return c.link.Close() }

// Prepare returns a session for an enrollment, after whatever that takes: the
// agent may ask p for a PIN, a touch or a yes (p may be nil: nobody can be
// asked). A cancelled ctx cancels the prompt and the work.
//
// Errors: [enrollment.ErrUnknown], [hsm.ErrNoCertificate], [message.ErrCertificateExpired],
// [hsm.ErrKeyMismatch], [loopback.ErrPortTaken], [upstream.ErrUnreachable],
// [hsm.ErrNoToken], [hsm.ErrNoKey], those of [hsm.AskPIN], [message.ErrRejected].
func (c *Client) Prepare(ctx context.Context, r PrepareRequest, p hsm.Prompter) (message.Session, error) {
	var out message.SessionAnswer
	err := c.call(ctx, &message.SessionRequest{Header: link.Header{Op: message.OpPrepare}, Enrollment: r.Enrollment,
		Own: r.Own, Purpose: r.Purpose, Authorities: r.Authorities, Look: r.Look},
		&out, link.Options{Prompter: ask.From(p)})
	if err != nil {
		return message.Session{}, err
	}
	if out.Session == nil {
		return message.Session{}, fmt.Errorf("%w: no session in it", wire.ErrFrame)
	}
	return *out.Session, nil
}

// Unlock asks for the PIN of the enrollment's token now, so that later commands
// need not. It does nothing when the token is unlocked.
func (c *Client) Unlock(ctx context.Context, enrollment string, p hsm.Prompter) error {
	return c.UnlockToken(ctx, enrollment, hsm.URI{}, p)
}

// UnlockToken is [Client.Unlock] for an enrollment that may not be there yet: token is where its key will be.
func (c *Client) UnlockToken(ctx context.Context, enrollment string, token hsm.URI, p hsm.Prompter) error {
	r := &message.SessionRequest{Header: link.Header{Op: message.OpUnlock}, Enrollment: enrollment, Token: token,
		Own: true, Purpose: hsm.Purpose{Command: "kubehsm"}, Given: c.Given}
	return c.call(ctx, r, nil, link.Options{Prompter: ask.From(p)})
}

// Status describes the agent.
func (c *Client) Status(ctx context.Context) (message.Status, error) { return c.status(ctx, false) }

// RecentStatus is Status that waits for no token: one that does not answer at once is taken
// for what it said last.
func (c *Client) RecentStatus(ctx context.Context) (message.Status, error) {
	return c.status(ctx, true)
}

func (c *Client) status(ctx context.Context, recent bool) (message.Status, error) {
	var out message.StatusAnswer
	r := &message.StatusRequest{Header: link.Header{Op: message.OpStatus}, Recent: recent}
	if err := c.call(ctx, r, &out, link.Options{}); err != nil {
		return message.Status{}, err
	}
	if out.Status == nil {
		return message.Status{}, fmt.Errorf("%w: no status in it", wire.ErrFrame)
	}
	return *out.Status, nil
}

// Lock has the agent lock, see [Lock].
func (c *Client) Lock(ctx context.Context) ([]hsm.URI, error) {
	var out message.LockAnswer
	err := c.plain(ctx, message.OpLock, &out)
	return out.Ended, err
}

// Stop has the agent lock and end, see [Stop].
func (c *Client) Stop(ctx context.Context) ([]hsm.URI, error) {
	return nil, c.endBy(ctx, message.OpStop)
}

// Retire is stop, unless something is open: [message.ErrInUse].
func (c *Client) Retire(ctx context.Context) error { return c.endBy(ctx, message.OpRetire) }

func (c *Client) endBy(ctx context.Context, op string) error {
	if err := c.plain(ctx, op, nil); err != nil {
		return err
	}
	silence := slowSilence
	if message.Urgent(op) {
		silence = liveSilence
	}
	return c.lost(c.link.AwaitEnd(ctx, silence))
}

// plain runs an operation that says no more, and asks nothing.
func (c *Client) plain(ctx context.Context, op string, out any) error {
	return c.call(ctx, &message.PlainRequest{Header: link.Header{Op: op}}, out, link.Options{})
}

// call runs one operation and serves the prompts that come meanwhile.
func (c *Client) call(ctx context.Context, r link.Request, out any, o link.Options) error {
	h := r.Head()
	h.Beats = c.beats || message.Urgent(h.Op)
	o.Waiting, o.Silence = c.Waiting, c.silence(h.Op)
	return c.lost(c.link.Call(ctx, r, out, o))
}

// lost words a broken connection.
func (c *Client) lost(err error) error {
	lost, ok := errors.AsType[*link.Lost](err)
	switch {
	case !ok:
		return err
	case lost.Silent():
		hint := "if it was suspended, let it go on; else end its process: the next command starts a new one"
		if pid := socket.PeerPID(c.link.Conn()); pid > 0 {
			const unix = "if it was suspended, `kill -CONT %[1]d` lets it go on; else end it with `kill -KILL %[1]d`: " +
				"the next command starts a new one"
			const windows = "end it with `taskkill /F /PID %[1]d`: the next command starts a new one"
			hint = fmt.Sprintf(hinting.PerOS(unix, unix, windows),
				pid)
		}
		return hinting.With(ErrNoAnswer, hint)
	}
	return hinting.With(fmt.Errorf("%w: %w", message.ErrStopped, lost.Err), "run the command again; it starts a new agent")
}

// Respond offers p to the agent for what no terminal can be asked: consents,
// touches and PINs that come up while requests run. It returns when ctx ends
// (nil) or the agent goes ([message.ErrStopped]). ready, if not nil, is called once the
// agent knows. The connection serves nothing else meanwhile, nor after.
func (c *Client) Respond(ctx context.Context, p hsm.Prompter, ready func()) error {
	return c.offer(ctx, &message.PlainRequest{Header: link.Header{Op: message.OpRespond}}, p, ready)
}

func (c *Client) offer(ctx context.Context, r link.Request, p hsm.Prompter, ready func()) error {
	err := c.call(ctx, r, nil, link.Options{Prompter: ask.From(p), Offered: ready})
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// Attend offers p for the requests of one client process; see [Client.Respond].
func (c *Client) Attend(ctx context.Context, client process.ID, p hsm.Prompter, ready func()) error {
	return c.offer(ctx, &message.AttendRequest{Header: link.Header{Op: message.OpAttend}, Client: client}, p, ready)
}

// How long a client waits for a word from its agent.
const (
	quickSilence = wire.MaxSilence        // quick answers, and the time between beats
	slowSilence  = 40 * time.Second       // an agent's end, which a token may slow down
	liveSilence  = 500 * time.Millisecond // limit of urgent answers; ReadWithin adds a second
)

// silence is how long an operation may be without a word; 0 is without end.
func (c *Client) silence(op string) time.Duration {
	switch {
	case message.Urgent(op):
		return liveSilence
	case c.beats, op == message.OpHello, op == message.OpStatus, op == message.OpRetire:
		return quickSilence
	}
	return 0
}
