package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
)

// The phases of the cluster after the stages of its build, in the file that the
// terminal UI reads ([cluster.ReadProgress]).
const (
	phaseStarting = "starting"
	phaseReady    = "ready"
	phaseFailed   = "failed"
)

// status writes the progress file. Each write replaces it whole.
type status struct {
	trial   *trial
	started time.Time
}

func (s status) set(phase string, done, total int, message string) error {
	b, err := json.Marshal(cluster.Progress{Phase: phase, Done: done, Total: total, Message: message, Started: s.started})
	if err != nil {
		return err
	}
	return replace(s.trial.progressFile(), append(b, '\n'), 0o600)
}

// awaitCluster returns once the cluster is ready, saying how far it is.
func awaitCluster(ctx context.Context, t *trial) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	said, last := "", time.Time{}
	for {
		// Asked before the file is read: what a process wrote last is then seen.
		alive := recorded(t.backgroundFile()).Alive()
		p, err := cluster.ReadProgress(t.progressFile())
		switch {
		case err != nil:
			return err
		case p.Ready():
			return nil
		case p.Failed():
			return hint.Withf(fmt.Errorf("the control plane: %s", p.Message), "the whole story is in %s", t.clusterLog())
		case !alive:
			return hint.Withf(errors.New("the control plane's start ended before it was ready"),
				"look into %s, and run `make demo` again", t.clusterLog())
		}
		if line := describe(p); line != said && (time.Since(last) > 5*time.Second || !sameKind(line, said)) {
			fmt.Println("  " + line)
			said, last = line, time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the control plane: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func describe(p cluster.Progress) string {
	if p.Total == 0 {
		return p.Message
	}
	took := time.Since(p.Started)
	line := fmt.Sprintf("%s: %d of %d after %s", p.Message, p.Done, p.Total, took.Round(time.Second))
	switch {
	case p.Done == p.Total && p.Phase == string(controlplane.Compiling):
		return line + "; linking"
	case p.Done == 0 || p.Done < p.Total/10: // what is left would be a guess
		return line
	}
	left := time.Duration(float64(took) / float64(p.Done) * float64(p.Total-p.Done))
	return line + fmt.Sprintf(", about %s left", left.Round(10*time.Second))
}

// sameKind tells whether two lines differ in their numbers only.
func sameKind(a, b string) bool {
	a, _, _ = strings.Cut(a, ":")
	b, _, _ = strings.Cut(b, ":")
	return a == b
}
