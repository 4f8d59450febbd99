package revocation

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubehsm/kubehsm/hsm/shared/span"
)

// How long, and how often, to look whether an API server enforces a change. It looks every second for
// policies that have changed (policy_source.go in k8s.io/apiserver).
const (
	EnforcedWithin = 15 * time.Second
	EnforcedEvery  = 200 * time.Millisecond
)

// ErrNotEnforced is a list that the API server has taken and does not enforce in time.
var ErrNotEnforced = errors.New("the API server did not enforce it within " + span.Limit(EnforcedWithin))

// Await waits until the API server that answers enforces the shards, for 15 seconds at most. probe
// creates a ConfigMap of a name in a dry run, and fails as the API server says. [ErrNotEnforced] tells
// that the time is up; any other error is one of probe's that says nothing of the shards.
func Await(ctx context.Context, shards []Shard, probe func(ctx context.Context, name string) error) error {
	within, cancel := context.WithTimeout(ctx, EnforcedWithin)
	defer cancel()
	next := time.NewTicker(EnforcedEvery)
	defer next.Stop()
	for _, s := range shards {
		revision := s.Revision()
		for {
			err := probe(within, s.ProbeName())
			if InForce(err) == revision {
				break
			}
			if err != nil && InForce(err) == "" && !IsRefusal(err) && within.Err() == nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-within.Done():
				return fmt.Errorf("%s: %w", s.Name, ErrNotEnforced)
			case <-next.C:
			}
		}
	}
	return nil
}
