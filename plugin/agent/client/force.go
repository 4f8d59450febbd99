package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// endTimeout is how long the system may take to end a process that is killed.
const endTimeout = time.Second

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
	if err == nil {
		defer c.Close()
		c.Waiting = waiting
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
	agent, kerr := kill(d)
	if kerr != nil {
		return Ended{}, hint.With(fmt.Errorf("%w, and the agent was not ended: %w", err, kerr), hint.Of(err))
	}
	ended := Ended{Agent: agent.PID}
	if err := recordEnd(d, agent); err != nil {
		return ended, fmt.Errorf("the agent was killed: %w", err)
	}
	if errors.Is(err, ErrImpostor) {
		return ended, err
	}
	return ended, nil
}

// Register notes that this process is the agent of these folders. The agent calls it when it has its lock.
func Register(d home.Dirs) error {
	b, err := json.Marshal(process.This())
	if err != nil {
		return err
	}
	return home.WriteFile(d.AgentProcess(), b)
}

// registered is the process that has called [Register] last. It may have ended.
func registered(d home.Dirs) (agent process.ID, err error) {
	b, err := home.ReadFile(d.AgentProcess(), home.MaxFile, nil)
	if err == nil {
		err = json.Unmarshal(b, &agent)
	}
	if err == nil && !agent.Known() {
		err = fmt.Errorf("%s names no process", d.AgentProcess())
	}
	return agent, err
}

// checkAgent refuses a process at the other end of conn while the agent of these folders is another one. Where the system
// does not tell, another user's is kept out, by [socket.Dial].
func checkAgent(conn net.Conn, d home.Dirs) error {
	agent, err := registered(d)
	peer := process.Of(socket.PeerPID(conn))
	switch {
	case err != nil, peer == agent, !agent.Alive(), !peer.Known():
		return nil
	case !peer.Alive(): // it was the agent before
		err = ErrNotRunning
	default:
		err = hint.With(fmt.Errorf("%w: process %d, and the agent is process %d", ErrImpostor, peer.PID, agent.PID),
			fmt.Sprintf("see what process %d is, and end it; `kubehsm agent lock` ends the agent, which nobody reaches", peer.PID))
	}
	return errors.Join(err, conn.Close())
}

// kill kills the agent of these folders. Its workers end with it.
func kill(d home.Dirs) (agent process.ID, err error) {
	if agent, err = registered(d); err != nil {
		return agent, fmt.Errorf("nothing says which process it is: %w", err)
	}
	p, err := os.FindProcess(agent.PID)
	if err != nil {
		return agent, err
	}
	defer func() { _ = p.Release() }()  // release frees a handle, nothing else
	if process.Of(agent.PID) != agent { // p is no process that gets the number later
		return agent, fmt.Errorf("process %d: %w", agent.PID, process.ErrEnded)
	}
	return agent, p.Kill()
}

// recordEnd waits until the agent, which was killed, is gone, and writes that to the audit log in its place, unless
// another agent, whose log it is by now, has started.
func recordEnd(d home.Dirs, agent process.ID) (err error) {
	lock, err := home.Lock(d.AgentLock())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	ours, err := lock.TryLockContext(ctx, 5*time.Millisecond)
	switch {
	case ours:
	case agent.Alive():
		return fmt.Errorf("process %d has not ended: %w", agent.PID, err)
	case ctx.Err() != nil:
		return nil
	default:
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	log, err := audit.Open(audit.Path(d))
	if err != nil {
		return err
	}
	return errors.Join(log.Write(audit.Record{Event: audit.AgentStop, Reason: "no-answer", Agent: agent.PID}), log.Close())
}
