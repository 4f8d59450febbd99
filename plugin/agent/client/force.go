package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// Ended says what gave no sign of life and was ended by force.
type Ended struct {
	// Agent is the agent's process, 0 if the agent answered. Its workers ended with
	// it. No PIN is held any more, but nobody has told the cards: the caller does.
	Agent int
	// Tokens are those whose workers the agent ended. It tells the cards itself.
	Tokens []hsm.URI
}

// Lock has the running agent forget all PINs, drop all sessions and cut all
// connections. An agent that does not answer is ended. waiting, which may be nil, shows which
// library is awaited, see [Client]. [ErrNotRunning] if there is none; [ErrNoAnswer] if it can be
// neither asked nor ended.
func Lock(ctx context.Context, d home.Dirs, waiting func(ask.Wait) (done func())) (Ended, error) {
	return insist(ctx, d, waiting, (*Client).Lock)
}

// Stop locks the running agent and ends it, see [Lock]. It returns when the agent
// is gone.
func Stop(ctx context.Context, d home.Dirs, waiting func(ask.Wait) (done func())) (Ended, error) {
	return insist(ctx, d, waiting, (*Client).Stop)
}

func insist(ctx context.Context, d home.Dirs, waiting func(ask.Wait) (done func()),
	ask func(*Client, context.Context) ([]hsm.URI, error)) (Ended, error) {
	c, err := Dial(ctx, d)
	var conn net.Conn
	if err == nil {
		defer c.Close()
		conn, c.Waiting = c.link.Conn(), waiting
		var tokens []hsm.URI
		if tokens, err = ask(c, ctx); err == nil {
			return Ended{Tokens: tokens}, nil
		}
	}
	// EAGAIN: so many wait for an agent that takes nobody in that no more can.
	if !errors.Is(err, ErrNoAnswer) && !errors.Is(err, ErrImpostor) && !errors.Is(err, syscall.EAGAIN) {
		return Ended{}, err
	}
	d = d.Settled()
	lock := d.AgentLock()
	pid, ferr := endByForce(lock, conn)
	if ferr != nil {
		return Ended{}, hint.With(fmt.Errorf("%w, and the agent was not ended: %w", err, ferr), hint.Of(err))
	}
	if err := recordForce(d, pid); err != nil {
		return Ended{Agent: pid}, fmt.Errorf("the agent was ended, but this was not recorded: %w", err)
	}
	if errors.Is(err, ErrImpostor) {
		return Ended{Agent: pid}, err
	}
	return Ended{Agent: pid}, nil
}

// recordForce writes the agent's end to the audit log in its place, unless another
// agent, whose log it is by now, has started.
func recordForce(d home.Dirs, pid int) (err error) {
	lock, err := home.Lock(d.AgentLock())
	if err != nil {
		return err
	}
	if ours, err := lock.TryLock(); !ours {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	log, err := audit.Open(audit.Path(d))
	if err != nil {
		return err
	}
	return errors.Join(log.Write(audit.Record{Event: audit.AgentStop, Reason: "no-answer", Agent: pid}), log.Close())
}
