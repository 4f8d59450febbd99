package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
)

// How long a client is given the same refusal again without more ado.
const (
	personCooldown = 30 * time.Second // a person said no, got the PIN wrong, or gave it to a library that failed
	// networkCooldown is for a network failure, as long as a short look finds no change.
	networkCooldown = 10 * time.Second
)

// refusals are those that are in force for a client.
type refusals struct {
	mu  sync.Mutex
	all map[refused]refusal
}

// refused is a client and the enrollment that it was refused.
type refused struct {
	client     bridge.Client
	enrollment string
}

type refusal struct {
	err   error
	until time.Time
}

func newRefusals() *refusals { return &refusals{all: map[refused]refusal{}} }

// recall returns the refusal that is still in force for a client.
func (s *refusals) recall(c bridge.Client, name string, now time.Time) error {
	if !c.Known() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.all[refused{c, name}]
	if !ok || now.After(r.until) {
		return nil
	}
	return r.err
}

// remember keeps a refusal. kubectl runs its plugin up to five times in one
// command; without this it would ask, and burn PIN tries, five times. asked tells that a
// person was asked.
func (s *refusals) remember(c bridge.Client, name string, err error, asked bool, now time.Time) {
	if !c.Known() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, r := range s.all {
		if now.After(r.until) || (err == nil && k.enrollment == name) {
			delete(s.all, k)
		}
	}
	if d := cooldown(err, asked); d > 0 {
		s.all[refused{c, name}] = refusal{err, now.Add(d)}
	}
}

func cooldown(err error, asked bool) time.Duration {
	switch {
	case err == nil:
		return 0
	case asked && errors.Is(err, hsm.ErrModule): // the library crashed or hung with the PIN
		return personCooldown
	}
	for _, e := range []error{hsm.ErrCancelled, hsm.ErrPINIncorrect, hsm.ErrPINInvalid, hsm.ErrTouchTimeout,
		upstream.ErrNotSigned} {
		if errors.Is(err, e) {
			return personCooldown
		}
	}
	// A cancelled dial says nothing of the network.
	if errors.Is(err, upstream.ErrUnreachable) && !errors.Is(err, context.Canceled) {
		return networkCooldown
	}
	return 0
}
