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

// othersAfter is how long the API server names a revision that the writer does not know until the list is read again:
// until then, the revision may be an earlier one.
const othersAfter = 2 * time.Second

// Await waits until the API server that answers enforces what a write of this ledger returned, for 15 seconds at
// most. Somebody else may write the same shards meanwhile: their states count that still have what the write was
// about. probe creates a ConfigMap of a name in a dry run, and fails as the API server says. [ErrNotEnforced] tells
// that the time is up; any other error is one of probe's that says nothing of the shards.
func (l Ledger) Await(ctx context.Context, shards []Shard, probe func(ctx context.Context, name string) error) error {
	within, cancel := context.WithTimeout(ctx, EnforcedWithin)
	defer cancel()
	next := time.NewTicker(EnforcedEvery)
	defer next.Stop()
	later := map[string]Shard{} // as they were read last
	var read time.Time
	for _, s := range shards {
		own, replaced, began := s.Revision(), s.stated(), time.Now()
		for {
			err := probe(within, s.ProbeName())
			revision := InForce(err)
			if revision == "" && err != nil && !IsRefusal(err) && within.Err() == nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
			seen := revision != "" && later[s.Name].stated() == revision
			if revision == own || seen && s.holds(later[s.Name]) {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-within.Done():
				return fmt.Errorf("%s: %w", s.Name, ErrNotEnforced)
			case <-next.C:
			}
			if revision == "" || revision == replaced || seen || time.Since(began) < othersAfter ||
				time.Since(read) < othersAfter {
				continue
			}
			if list, err := l.Read(within); err == nil { // else its own state may still come
				for _, o := range list.Shards {
					later[o.Name] = o
				}
			}
			read = time.Now()
		}
	}
	return nil
}
