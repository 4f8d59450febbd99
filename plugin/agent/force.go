package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
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
// connections. An agent that does not answer is ended. [ErrNotRunning] if there is
// none; [ErrNoAnswer] if it can be neither asked nor ended.
func Lock(ctx context.Context, d home.Dirs) (Ended, error) { return insist(ctx, d, (*Client).lock) }

// Stop locks the running agent and ends it, see [Lock]. It returns when the agent
// is gone.
func Stop(ctx context.Context, d home.Dirs) (Ended, error) { return insist(ctx, d, (*Client).stop) }

func insist(ctx context.Context, d home.Dirs, ask func(*Client, context.Context) ([]hsm.URI, error)) (Ended, error) {
	c, err := Dial(ctx, d)
	var conn net.Conn
	if err == nil {
		defer c.Close()
		conn = c.link.Conn()
		var tokens []hsm.URI
		if tokens, err = ask(c, ctx); err == nil {
			return Ended{Tokens: tokens}, nil
		}
	}
	// EAGAIN: so many wait for an agent that takes nobody in that no more can.
	if !errors.Is(err, ErrNoAnswer) && !errors.Is(err, syscall.EAGAIN) {
		return Ended{}, err
	}
	lock := filepath.Join(d.Run, lockName)
	pid, ferr := endByForce(lock, conn)
	if ferr != nil {
		return Ended{}, hsm.WithHint(fmt.Errorf("%w, and the agent was not ended: %w", err, ferr), hsm.Hint(err))
	}
	if err := recordForce(d, pid); err != nil {
		return Ended{Agent: pid}, fmt.Errorf("the agent was ended, but this was not recorded: %w", err)
	}
	return Ended{Agent: pid}, nil
}

// recordForce writes the agent's end to the audit log in its place, unless another
// agent, whose log it is by now, has started.
func recordForce(d home.Dirs, pid int) (err error) {
	lock, err := home.Lock(filepath.Join(d.Run, lockName))
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

// How long a card is waited for that does not answer, or is not found, which a reader
// may say of a card that it is not done with; and the pause between two tries.
const (
	settlePatience = time.Minute
	findPatience   = time.Second
	settleEvery    = 100 * time.Millisecond
)

// Settle sees to it that the token of that URI is locked, after the process that
// held it was killed: a reader may be busy with what that process had begun. A token
// that has gone is locked.
func Settle[T Token](ctx context.Context, open func(context.Context, hsm.URI) (T, error), u hsm.URI) error {
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	found := time.Now()
	for {
		t, err := open(ctx, u)
		switch {
		case err == nil:
			return errors.Join(t.Lock(), t.Close())
		case ctx.Err() != nil:
			return err
		case errors.Is(err, hsm.ErrBusy):
			found = time.Now()
		case !errors.Is(err, hsm.ErrNoToken) && !errors.Is(err, hsm.ErrRemoved):
			return err
		case time.Since(found) >= findPatience:
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(settleEvery):
		}
	}
}
