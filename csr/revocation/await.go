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

// Await waits until the API server that answers enforces what a write of this ledger returned, for 15 seconds at
// most. Somebody else may write the same shards meanwhile: their states count that still have what the write was
// about. probe creates a ConfigMap of a name in a dry run, and fails as the API server says. [ErrNotEnforced] tells
// that the time is up; any other error is one of probe's, or of the API's, that says nothing of the shards.
func (l Ledger) Await(ctx context.Context, shards []Shard, probe func(ctx context.Context, name string) error) error {
	within, cancel := context.WithTimeout(ctx, EnforcedWithin)
	defer cancel()
	next := time.NewTicker(EnforcedEvery)
	defer next.Stop()
	for _, s := range shards {
		for known := s.revisions(); ; {
			err := probe(within, s.ProbeName())
			revision := InForce(err)
			if revision == "" && err != nil && !IsRefusal(err) && within.Err() == nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
			holds, judged := known[revision]
			if !judged && within.Err() == nil {
				list, err := l.Read(within)
				if err != nil && within.Err() == nil {
					return err
				}
				for _, later := range list.Shards {
					if later.Name == s.Name {
						known[later.Revision()] = s.holds(later)
					}
				}
				holds = known[revision]
				known[revision] = holds // an earlier one is not read for again
			}
			if holds {
				break
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

// revisions tells of those that the writer of the shard knows whether they have what the write was about: none, its
// own, and the one that it replaced.
func (s Shard) revisions() map[string]bool {
	known := map[string]bool{"": false}
	if s.object != nil {
		known[shardOf(s.object).Revision()] = false
	}
	known[s.Revision()] = true
	return known
}
