package enroll

import (
	"context"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// onePINLife bounds how long a typed PIN is kept for a second use.
const onePINLife = 5 * time.Minute

// onePIN lets a person type the PIN of a token once for a flow in which this
// process and the agent both need it. A PIN is handed out again only if the
// token took it, only once, and only while it is young; after a refusal the
// person is asked, as always. A PIN that was just chosen serves twice: for what is done with
// the token next, too.
type onePIN struct {
	mu   sync.Mutex
	kept map[string]*keptPIN
}

type keptPIN struct {
	pin   *hsm.Secret
	typed time.Time
	uses  int // how often the PIN may still be handed out
	// proven is set once the flow knows that the token took it.
	proven bool
}

func newOnePIN() *onePIN { return &onePIN{kept: map[string]*keptPIN{}} }

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
			o.keep(key, a.PIN, uses)
		}
		return a, err
	}
}

// keep keeps a copy of what was typed, in place of what was kept before.
func (o *onePIN) keep(key string, pin *hsm.Secret, uses int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if old := o.kept[key]; old != nil {
		old.pin.Zero()
	}
	k := &keptPIN{pin: pin.Clone(), typed: time.Now(), uses: uses}
	o.kept[key] = k
	time.AfterFunc(onePINLife, func() { o.expire(key, k) })
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
	if again || !k.proven || time.Since(k.typed) > onePINLife {
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

// prove says that the PINs typed so far were taken by their tokens.
func (o *onePIN) prove() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range o.kept {
		k.proven = true
	}
}

// zero forgets every PIN.
func (o *onePIN) zero() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, k := range o.kept {
		k.pin.Zero()
		delete(o.kept, key)
	}
}
