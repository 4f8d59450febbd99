package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/controlplane"
)

// down stops what up started, and nothing else, and removes the folder. If
// something cannot be stopped the folder stays, so that it can be tried again.
func down(ctx context.Context, t *trial) error {
	if _, err := os.Stat(t.dir); errors.Is(err, os.ErrNotExist) {
		fmt.Printf("nothing to do: there is no trial in %s\n", t.dir)
		return nil
	}
	if !t.claimed() {
		return fmt.Errorf("%s is not a trial's folder; it is left as it is", t.dir)
	}
	if up := recorded(t.upFile()); up.Alive() {
		fmt.Println("ending the `make demo` that runs")
		if err := up.End(ctx, 20*time.Second); err != nil {
			return err
		}
	}
	release, err := t.lock(ctx)
	if errors.Is(err, os.ErrNotExist) {
		fmt.Println("another run has removed it meanwhile")
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	for _, part := range []struct {
		name string
		stop func(context.Context, *trial) error
	}{
		{"the agent", stopAgent},
		{"the control plane", stopCluster},
	} {
		if err := part.stop(ctx, t); err != nil {
			return hint.Withf(fmt.Errorf("end %s: %w", part.name, err), "%s is kept; run `make demo-down` again", t.dir)
		}
	}
	if err := os.RemoveAll(t.dir); err != nil {
		return err
	}
	fmt.Printf("the trial is stopped and %s is removed\n", t.dir)
	return nil
}

func stopCluster(ctx context.Context, t *trial) error {
	return controlplane.StopDir(ctx, t.cluster())
}

// stopAgent ends the trial's agent, if one answers on its socket.
func stopAgent(ctx context.Context, t *trial) error {
	if !agentAnswers(t) {
		return nil
	}
	if _, err := t.command(ctx, t.kubehsm(), "agent", "stop").output(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for agentAnswers(t) {
		select {
		case <-ctx.Done():
			return errors.New("it still answers on its socket")
		case <-tick.C:
		}
	}
	return nil
}

func agentAnswers(t *trial) bool {
	c, err := net.DialTimeout("unix", t.socket(), 5*time.Second)
	if err != nil {
		return false
	}
	return c.Close() == nil
}
