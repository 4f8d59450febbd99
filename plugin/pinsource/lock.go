package pinsource

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

const (
	// settle is how long after an answer the token's verdict on it can be open,
	// unless another prompt or [Prompter.Close] shows it earlier: a prompter may
	// live on for hours.
	settle = 15 * time.Second
	// turn is how long another's answer is waited for. It is longer than settle,
	// as several may wait.
	turn = time.Minute
	// lockRetry is how often a lock of another's is tried again.
	lockRetry = 20 * time.Millisecond
)

// take waits until no other process waits for the token's verdict on what s
// holds: with several at once a wrong PIN would cost each of them a try. The
// lock dies with the process.
func (p *Prompter) take(ctx context.Context, s Source) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held, ok := p.locks[s]; ok && held.timer.Stop() {
		held.timer.Reset(settle) // asked again without a refusal: it was taken
		return nil
	}
	if err := os.MkdirAll(p.o.State, 0o700); err != nil {
		return err
	}
	if s.kind == descriptor { // each process has its own
		return nil
	}
	l := flock.New(filepath.Join(p.o.State, "pin-source-"+short(s.String())+".lock"), flock.SetPermissions(0o600))
	wait, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	if _, err := l.TryLockContext(wait, lockRetry); err != nil {
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case wait.Err() != nil: // not wrapped: nothing timed out for the person
			err = fmt.Errorf("the PIN from %s is not used: other processes are trying it", s)
		}
		return errors.Join(err, l.Close())
	}
	p.locks[s] = lock{l, time.AfterFunc(settle, func() { _ = l.Unlock() })}
	return nil
}

type lock struct {
	file  *flock.Flock
	timer *time.Timer
}

// leave lets the next process have its turn. The file stays: removing it would
// let two others lock two different files.
func (p *Prompter) leave(s Source) error {
	held, ok := p.locks[s]
	if !ok {
		return nil
	}
	delete(p.locks, s)
	held.timer.Stop()
	return held.file.Unlock()
}
