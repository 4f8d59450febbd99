package pinsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/filelock"
	"github.com/kubehsm/kubehsm/hsm/shared/regularfile"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process"
)

const (
	// settle is how long after an answer the token's verdict on it can be open,
	// unless another prompt or [Sources.Close] shows it earlier: a process may
	// live on for hours.
	settle = 15 * time.Second
	// turn is how long another's answer is waited for. It is longer than settle,
	// as several may wait.
	turn = time.Minute
	// lockRetry is how often a lock of another's is tried again.
	lockRetry = 20 * time.Millisecond
)

// take waits until no other process waits for the token's answer to the PIN in s: several at once
// would each lose a try to a wrong PIN. The lock ends with the process.
func (p *Sources) take(ctx context.Context, s Source, q hsm.PINPrompt) error {
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
	path := filepath.Join(p.o.State, "pin-source-"+short(s.String())+".lock")
	l := filelock.New(path)
	wait, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	taken, err := l.TryLock()
	if err == nil && !taken {
		done := p.waiting(path, q)
		_, err = l.TryLockContext(wait, lockRetry)
		done()
	}
	if err != nil {
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case wait.Err() != nil: // not wrapped: nothing timed out for the person
			err = fmt.Errorf("the PIN from %s is not used: other processes are trying it", s)
		}
		return errors.Join(err, l.Close())
	}
	_ = note(path) // on a full disk, say, who waits is not told for whom
	p.locks[s] = lock{l, time.AfterFunc(settle, func() { _ = l.Unlock() })}
	return nil
}

// waiting shows who has the lock. On the same terminal it shows nothing: the other process may have
// a prompt there.
func (p *Sources) waiting(path string, q hsm.PINPrompt) (done func()) {
	b, err := regularfile.Read(path, 1<<10)
	var holder process.ID
	if p.o.Waiting == nil || err != nil || json.Unmarshal(b, &holder) != nil || !holder.Known() || !holder.Alive() {
		return func() {}
	}
	if t := holder.Terminal(); t != 0 && t == process.This().Terminal() {
		return func() {}
	}
	return p.o.Waiting(ask.Wait{For: ask.ForTrial, Kind: string(q.Kind), Token: q.Token.Name(), Client: holder,
		Asker: holder})
}

// note writes who has the lock into its file, for those who wait.
func note(path string) error {
	b, err := json.Marshal(process.This())
	if err != nil {
		return err
	}
	f, _, err := regularfile.Open(path, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

type lock struct {
	file  filelock.Lock
	timer *time.Timer
}

// leave ends this process's turn. The file stays: if it were removed, two processes could lock two
// different files.
func (p *Sources) leave(s Source) error {
	held, ok := p.locks[s]
	if !ok {
		return nil
	}
	delete(p.locks, s)
	held.timer.Stop()
	return held.file.Unlock()
}
