package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// ErrUnsupported says that this system cannot run a control plane.
var ErrUnsupported = errors.New("the control plane runs on Linux only")

// Ident names one process for good: a pid is used again some day, a pid with
// the moment of its start is not.
type Ident struct {
	PID int `json:"pid"`
	// Started is the boot's id and the start in clock ticks since that boot.
	Started string `json:"started"`
}

// Identify returns the Ident of the running process pid.
func Identify(pid int) (Ident, error) {
	started, _, err := processStart(pid)
	return Ident{PID: pid, Started: started}, err
}

// Alive tells whether the process still runs; a zombie does not.
func (i Ident) Alive() bool {
	if i.PID <= 0 {
		return false
	}
	started, zombie, err := processStart(i.PID)
	return err == nil && started == i.Started && !zombie
}

// Signal sends sig to the process if it is still the one. The handle is taken
// before the check, so that the signal cannot reach a successor of the pid.
func (i Ident) Signal(sig os.Signal) error {
	if i.PID <= 0 { // kill(2) would take it for a group
		return os.ErrProcessDone
	}
	p, err := os.FindProcess(i.PID)
	if err != nil {
		return err
	}
	defer p.Release()
	if !i.Alive() {
		return os.ErrProcessDone
	}
	return p.Signal(sig)
}

// process is a running program of a cluster.
type process struct {
	Ident
	// done is closed once the process is reaped; nil if it is not our child.
	done chan struct{}
}

// launch starts cmd. A process that is not detached dies with this one.
func launch(cmd *exec.Cmd, detached bool) (*process, error) {
	setSession(cmd, detached)
	p := &process{done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(cmd, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// stop sends sig and waits until the process is gone; ctx ends the wait.
func (p *process) stop(ctx context.Context, sig os.Signal) error {
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return p.wait(ctx)
}

// wait returns when the process is gone.
func (p *process) wait(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for p.Alive() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for process %d to end: %w", p.PID, ctx.Err())
		case <-p.done:
		case <-tick.C:
		}
	}
	if p.done != nil {
		<-p.done
	}
	return nil
}

// end asks the process to end and kills it if it has not after patience.
func (p *process) end(ctx context.Context, patience time.Duration) error {
	gentle, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.stop(gentle, syscall.SIGTERM); err == nil {
		return nil
	}
	return p.stop(ctx, syscall.SIGKILL)
}

// End asks the process i to end and kills it if it still runs after patience.
// ctx ends the wait. It is no error if the process is gone.
func (i Ident) End(ctx context.Context, patience time.Duration) error {
	p := process{Ident: i}
	return p.end(ctx, patience)
}
