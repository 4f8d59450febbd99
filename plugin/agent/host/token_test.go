package host

import (
	"context"
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// oneToken is where that token comes from.
type oneToken struct {
	worker.Tokens
	token worker.Token
}

func (o oneToken) Open(context.Context, hsm.URI) (worker.Token, error) { return o.token, nil }

func (oneToken) OnEnd(func(worker.End)) {}

func (oneToken) Removed(ctx context.Context, _ worker.Token) error {
	<-ctx.Done()
	return ctx.Err()
}

// lockedWhileLooking is a token that the agent is locked at when a key is looked
// for.
type lockedWhileLooking struct {
	worker.Token
	lock func()
}

func (l *lockedWhileLooking) Slot(ctx context.Context, _ hsm.URI) (hsm.Slot, error) {
	l.lock()
	<-ctx.Done()
	return hsm.Slot{}, ctx.Err()
}

func (*lockedWhileLooking) Lock() error  { return nil }
func (*lockedWhileLooking) Close() error { return nil }

// TestUnlockHearsOfALock: who unlocks while somebody locks is told so, and not
// that he has interrupted it.
func TestUnlockHearsOfALock(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	var a *agent
	token := &lockedWhileLooking{lock: func() { check(t, only(a.locks.all(message.LockAsked, nil))) }}
	o := Options{Dirs: r.dirs, Tokens: oneToken{token: token}}
	o.defaults()
	var err error
	a, err = newAgent(o, wire.Build{}, discard(), nil, func() {})
	check(t, err)
	defer a.bridge.close()
	if err := a.signIns.unlockAhead(t.Context(), auditing.Requester{Enrollment: "prod"},
		link.NewAsker(link.NewServer(t.Context(), nil, message.Codes()))); !errors.Is(err, message.ErrLocked) {
		t.Error(err)
	}
}
