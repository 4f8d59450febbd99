package enroll

import (
	"context"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/away"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/session"
)

// onePIN lets a person type the PIN of a token once for a flow in which this
// process and the agent both need it, with a wait for an approval between. A PIN is handed out
// again only if the token took it, only once, and only while the agent would hold the token
// unlocked, had it been given the PIN: not after the time without use ([settings.Unlock]), nor once the
// person has left the computer or asked for a lock. After a refusal the
// person is asked, as always. A PIN that was just chosen serves twice: for what is done with
// the token next, too.
type onePIN struct {
	policy  pinPolicy
	mu      sync.Mutex
	kept    map[string]*keptPIN
	unwatch context.CancelFunc // ends the watch for what locks; nil while there is none
}

// pinPolicy says how long a PIN is kept.
type pinPolicy struct {
	life   time.Duration // 0 keeps none
	away   []away.Event  // events that lock the token before
	locked func(since time.Time) bool
}

// lockPoll is how often a lock that somebody asked for is looked for.
const lockPoll = time.Second

// lockPolicy is the agent's policy. A configuration that cannot be read keeps no PIN: the agent
// does not start with it, either.
func lockPolicy(e *env.Env) pinPolicy {
	config, err := settings.Load(e.Dirs)
	if err != nil {
		return pinPolicy{}
	}
	return pinPolicy{life: min(config.Unlock.Idle, config.Unlock.Max), away: away.Locking(config.LockOn),
		locked: func(since time.Time) bool { return session.LockedSince(e, since) }}
}

type keptPIN struct {
	token hsm.TokenInfo
	pin   *hsm.Secret
	typed time.Time
	uses  int // uses of the PIN that are left
	// proven is set once the flow knows that the token took it.
	proven bool
}

func newOnePIN(p pinPolicy) *onePIN { return &onePIN{policy: p, kept: map[string]*keptPIN{}} }

// before keeps what next is told; it is an [ask.Middleware].
func (o *onePIN) before(next ask.Func) ask.Func {
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		p := q.PIN
		if p == nil || p.Kind != hsm.UserPIN && p.Kind != hsm.PIVPIN {
			return next(ctx, q)
		}
		key := p.Token.URI().String()
		if !p.New {
			if pin := o.take(key, p.Again != ""); pin != nil {
				return ask.Answer{PIN: pin}, nil
			}
		}
		a, err := next(ctx, q)
		if err == nil {
			uses := 1
			if p.New {
				uses = 2
			}
			o.keep(p.Token, a.PIN, uses)
		}
		return a, err
	}
}

// keep keeps a copy of what was typed, in place of what was kept before.
func (o *onePIN) keep(t hsm.TokenInfo, pin *hsm.Secret, uses int) {
	key := t.URI().String()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.policy.life <= 0 {
		return
	}
	o.watch()
	if old := o.kept[key]; old != nil {
		old.pin.Zero()
	}
	k := &keptPIN{token: t, pin: pin.Clone(), typed: time.Now(), uses: uses}
	o.kept[key] = k
	time.AfterFunc(o.policy.life, func() { o.expire(key, k) })
}

// watch forgets all PINs when the person leaves the computer or asks for a lock, until they
// are forgotten anyway. The caller holds the lock.
func (o *onePIN) watch() {
	if o.unwatch != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.unwatch = cancel
	begun := time.Now()
	go away.New(o.policy.away, func(away.Event) { o.zero() }).Run(ctx)
	go func() {
		tick := time.NewTicker(lockPoll)
		defer tick.Stop()
		for !o.policy.locked(begun) {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		o.zero()
	}()
}

// expire forgets k, unless it was handed out or replaced.
func (o *onePIN) expire(key string, k *keptPIN) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kept[key] == k {
		k.pin.Zero()
		delete(o.kept, key)
	}
}

// take hands out a proven PIN, and forgets it after its last use; again discards it unused.
func (o *onePIN) take(key string, again bool) *hsm.Secret {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.kept[key]
	if k == nil {
		return nil
	}
	if again || !k.proven || time.Since(k.typed) > o.policy.life || o.policy.locked(k.typed) {
		k.pin.Zero()
		delete(o.kept, key)
		return nil
	}
	if k.uses--; k.uses > 0 {
		return k.pin.Clone()
	}
	delete(o.kept, key)
	return k.pin
}

// prove says that the token that u names took the PIN that was typed for it last.
func (o *onePIN) prove(u hsm.URI) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range o.kept {
		k.proven = k.proven || u.TokenOnly().MatchToken(k.token)
	}
}

// zero forgets every PIN.
func (o *onePIN) zero() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unwatch != nil {
		o.unwatch()
		o.unwatch = nil
	}
	for key, k := range o.kept {
		k.pin.Zero()
		delete(o.kept, key)
	}
}
