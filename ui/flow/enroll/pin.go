package enroll

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/flow/session"
)

// purpose names the enrollment and the action on the prompts of a step.
func (r *attempt) purpose(action string) hsm.Purpose {
	return hsm.Purpose{Cluster: r.record.Options.Name, Action: action}
}

// withPIN has use work with the token, which may ask a person. The agent needs the token after the request is
// approved, which may take days, and nobody is to type a PIN twice. So a PIN that the token has taken is handed to the
// agent at once, which holds the token unlocked under its lock policy. None is kept here.
func (r *attempt) withPIN(ctx context.Context, action string, use func(hsm.Prompter) error) error {
	var typed lastPIN
	defer func() { typed.end().Zero() }()
	p := typed.heard(ask.From(ask.With(r.env.Prompter, r.purpose(action))))
	if err := use(p.Prompter()); err != nil {
		return err
	}
	pin := typed.end()
	if pin == nil || !r.info.URI().MatchToken(typed.token) { // an enrollment may sign in with its spare
		return nil
	}
	err := r.token.Unlock(ctx, once(pin))
	if err == nil {
		err = session.Agent{Env: r.env}.UnlockToken(ctx, r.record.Options.Name, r.tokenURI(), once(pin))
	}
	if err != nil { // the person is asked when the PIN is needed next
		r.progress(r.at, "the agent does not hold the token unlocked (%v): the PIN is asked for again", err)
	}
	return nil
}

// lockPoll is how often it is looked whether the agent still holds the token.
const lockPoll = time.Second

// lockWithAgent closes the token, which its worker has open since the PIN was typed, once the agent does not hold it
// unlocked any more: after a lock, too, the person is asked again. stop ends that.
func (r *attempt) lockWithAgent(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(lockPoll)
		defer tick.Stop()
		for r.heldByAgent(ctx) {
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		if ctx.Err() == nil && r.token != nil {
			r.close()
			r.progress(r.at, "the token is locked: its PIN is asked for again if it is needed")
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (r *attempt) heldByAgent(ctx context.Context) bool {
	s, err := session.Agent{Env: r.env}.AgentStatus(ctx)
	return err == nil && slices.ContainsFunc(s.Tokens, func(t message.TokenStatus) bool {
		return t.Unlocked && t.URI.String() == r.tokenURI().String()
	})
}

// tokenURI names the token as the agent will know it by the enrollment's key.
func (r *attempt) tokenURI() hsm.URI {
	for _, key := range []hsm.URI{r.record.Request.Key, r.record.Options.Key} {
		if key.Scheme != "" {
			return key.TokenOnly()
		}
	}
	return r.info.URI()
}

// lastPIN is the PIN that was typed last, until its end.
type lastPIN struct {
	mu    sync.Mutex
	pin   *hsm.Secret
	token hsm.TokenInfo
	ended bool
}

// heard keeps what next is told; nil if next asks nobody.
func (l *lastPIN) heard(next ask.Func) ask.Func {
	if next == nil {
		return nil
	}
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		a, err := next(ctx, q)
		if p := q.PIN; err == nil && p != nil && (p.Kind == hsm.UserPIN || p.Kind == hsm.PIVPIN) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.pin.Zero(); !l.ended {
				l.pin, l.token = a.PIN.Clone(), p.Token
			}
		}
		return a, err
	}
}

// end returns the PIN, nil if none was typed. No other is kept from then on.
func (l *lastPIN) end() *hsm.Secret {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	return l.pin
}

// once answers one question for the PIN with pin, and none that a person must answer. A token that has taken the PIN
// counts no wrong ones.
func once(pin *hsm.Secret) ask.Func {
	return func(_ context.Context, q ask.Question) (ask.Answer, error) {
		p := q.PIN
		if p == nil || p.New || p.Typed || p.Token.PIN.Counted() || pin == nil {
			return ask.Answer{}, hsm.ErrCancelled
		}
		given := pin.Clone()
		pin = nil
		return ask.Answer{PIN: given, Given: true}, nil
	}
}
