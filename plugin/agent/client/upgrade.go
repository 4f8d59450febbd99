package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// Bounds of a replacement.
const (
	maxAttempts = 5 // others may replace the agent at the same time
	// restartTimeout is how long a supervisor may take to start an agent again
	// before we do.
	restartTimeout = 3 * time.Second
)

// Program is the program that wants an agent of its own kind.
type Program struct {
	// Path is absolute; it is run as `PATH agent serve`.
	Path    string
	Version string
	// Say tells the person, in one sentence, that an unlocked agent was replaced.
	// If it is nil, an unlocked agent is left alone.
	Say func(sentence string)
}

// EnsureProgram connects to the running agent, or has one started first and waits until it listens.
// One that runs from an older program is replaced while nothing is open on it;
// else it goes on, and its status says so. The clients of a replaced agent ask
// for a new session when the old one is refused. Errors:
// [message.ErrVersion] if the running agent speaks another protocol and is in use, or is
// the newer one.
func EnsureProgram(ctx context.Context, d home.Dirs, p Program) (*Client, error) {
	mine, err := message.BuildOf(p.Path, p.Path, p.Version)
	known := err == nil // a missing file is reported when it must be started
	replaced := false
	for range maxAttempts {
		c, err := connect(ctx, d, p.Path)
		if err != nil || !known {
			return c, err
		}
		h, err := c.hello(ctx, mine)
		if err == nil {
			err = p.settle(ctx, c, mine, h, &replaced)
		}
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, errGaveWay):
			if h.Supervised {
				awaitRestart(ctx, d)
			}
		case !errors.Is(err, message.ErrStopped): // an agent that stopped is on its way out
			return nil, errors.Join(err, c.Close())
		}
		if err := c.Close(); err != nil {
			return nil, err
		}
	}
	return nil, hint.With(fmt.Errorf("%w, again and again", message.ErrStopped),
		"see `kubehsm audit` and the agent's log, "+d.LogFile())
}

// errGaveWay says that the agent has ended for us.
var errGaveWay = errors.New("a newer agent took over")

// hello introduces a program. An agent that does not know the question yet is
// taken as it is.
func (c *Client) hello(ctx context.Context, mine wire.Build) (message.Hello, error) {
	var out message.HelloAnswer
	err := c.call(ctx, &message.HelloRequest{Header: link.Header{Op: message.OpHello}, Program: mine}, &out,
		link.Options{})
	switch {
	case errors.Is(err, message.ErrStopped), errors.Is(err, message.ErrVersion), ctx.Err() != nil:
		return message.Hello{}, err
	case out.Hello == nil: // the agent refused the question, or its answer cannot be read
		return message.Hello{Protocol: wire.Version, Program: mine}, nil
	}
	c.beats = out.Hello.Beats
	return *out.Hello, nil
}

// settle decides what becomes of a running agent: nil to use it, errGaveWay if
// it has ended, [message.ErrVersion] if it can be neither used nor ended.
func (p Program) settle(ctx context.Context, c *Client, mine wire.Build, h message.Hello, replaced *bool) error {
	usable := h.Protocol == wire.Version
	mayEnd := mine.Replaces(h.Program) && !*replaced &&
		(!h.Supervised || mine.Path == h.Program.Path) && // a supervisor would start the old program again
		(!h.Unlocked || p.Say != nil || !usable)
	var err error
	if mayEnd {
		if err = c.Retire(ctx); err == nil {
			*replaced = true
			if h.Unlocked && p.Say != nil {
				newer := "a newer kubehsm"
				if h.Program.Path != mine.Path {
					newer = fmt.Sprintf("%s, which is newer than its own %s", mine, h.Program)
				}
				p.Say("The agent was replaced by " + newer + ". Its token was unlocked; the next command asks for the PIN.")
			}
			return errGaveWay
		}
		if !errors.Is(err, message.ErrInUse) {
			return err
		}
	}
	if usable {
		return nil
	}
	what := fmt.Errorf("%w: %s, which speaks protocol %d, not %d", message.ErrVersion, h.Program, h.Protocol, wire.Version)
	if err != nil {
		what = fmt.Errorf("%w; %w", what, err)
	}
	return hint.With(what, message.VersionHint)
}

// connect connects to the running agent, or has one started.
func connect(ctx context.Context, d home.Dirs, exe string) (*Client, error) {
	c, err := Dial(ctx, d)
	if errors.Is(err, ErrNotRunning) {
		wake(ctx, d)
		c, err = Dial(ctx, d)
	}
	if !errors.Is(err, ErrNotRunning) {
		return c, err
	}
	if err := Start(ctx, d, exe); err != nil {
		return nil, err
	}
	return Dial(ctx, d)
}

// awaitRestart waits a while for a supervisor to start the agent again.
func awaitRestart(ctx context.Context, d home.Dirs) {
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if c, err := Dial(ctx, d); err == nil {
				_ = c.Close() // an answer is enough
				return
			}
		}
	}
}

// wake connects to the bridge's port, where systemd may listen that starts the agent
// for a connection, and no other may. It waits a while for that agent.
func wake(ctx context.Context, d home.Dirs) {
	if runtime.GOOS != "linux" {
		return
	}
	ep, err := loopback.Port(d)
	if err != nil {
		return // the agent will say what is wrong
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp4", ep.Address())
	if err != nil {
		return
	}
	defer c.Close()
	go func() {
		_, _ = c.Read(make([]byte, 1)) // the read ends when the listener is gone
		cancel()
	}()
	awaitRestart(ctx, d)
}
