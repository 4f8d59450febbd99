package enroll

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/session"
)

// typist answers PIN prompts and counts them.
type typist struct {
	hsm.Prompter
	asked int
}

func (t *typist) PIN(context.Context, hsm.PINPrompt) (*hsm.Secret, error) {
	t.asked++
	return hsm.NewSecret([]byte("123456")), nil
}

// TestPINIsHandedOver: a PIN that the token has taken unlocks it in the agent at once, and is kept nowhere else.
func TestPINIsHandedOver(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		noAgent, fails, other, unlocked bool
	}{
		"the token took it":     {unlocked: true},
		"there is no agent":     {noAgent: true},
		"it came to nothing":    {fails: true},
		"it is another token's": {other: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "")
			if !c.noAgent {
				flowtest.Agent(t, w.Env)
			}
			var said []string
			person := &typist{}
			r := newAttempt(w.Env, &enrolling.Progress{Options: enrolling.Options{Name: "lab", Token: w.Card.Info().URI()}},
				enrolling.Options{}, person, func(e enrolling.Event) { said = append(said, e.Message) })
			defer r.close()
			must.OK(t, r.openToken(t.Context()))
			tries := w.Card.Tries()
			var kept hsm.Prompter
			err := r.withPIN(t.Context(), "try", func(p hsm.Prompter) error {
				kept = p
				if c.other {
					_, err := p.PIN(t.Context(), hsm.PINPrompt{Kind: hsm.PIVPIN, Token: hsm.TokenInfo{Scheme: hsm.SchemePIV, Serial: "77"}})
					return err
				}
				if err := r.token.Unlock(t.Context(), p); err != nil || !c.fails {
					return err
				}
				return broken
			})
			if c.fails != errors.Is(err, broken) || !c.fails && err != nil {
				t.Fatal(err)
			}
			if unlocked := agentHolds(t, w); unlocked != c.unlocked || w.Card.Tries() != tries || person.asked != 1 {
				t.Errorf("unlocked in the agent: %t; %d tries left, of %d; asked %d times", unlocked, w.Card.Tries(), tries,
					person.asked)
			}
			if told := strings.Contains(strings.Join(said, "\n"), "asked for again"); told != c.noAgent {
				t.Errorf("said %q", said)
			}
			var later lastPIN
			later.end()
			if _, err := later.heard(ask.From(kept)).PIN(t.Context(), hsm.PINPrompt{Kind: hsm.PIVPIN}); err != nil ||
				later.pin.Len() != 0 {
				t.Errorf("%v; a PIN is kept after the end", err)
			}
		})
	}
}

// TestLockWithAgent: a lock while a request waits closes the token that the enrollment has open.
func TestLockWithAgent(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "")
	flowtest.Agent(t, w.Env)
	closed := make(chan struct{})
	r := newAttempt(w.Env, &enrolling.Progress{Options: enrolling.Options{Name: "lab", Token: w.Card.Info().URI()}},
		enrolling.Options{}, &typist{}, func(e enrolling.Event) {
			if strings.Contains(e.Message, "is locked") {
				close(closed)
			}
		})
	defer r.close()
	must.OK(t, r.openToken(t.Context()))
	unlock := func(p hsm.Prompter) error { return r.token.Unlock(t.Context(), p) }
	if err := r.withPIN(t.Context(), "try", unlock); err != nil || !r.heldByAgent(t.Context()) {
		t.Fatalf("%v; held by the agent: %t", err, agentHolds(t, w))
	}
	stop := r.lockWithAgent(t.Context())
	if stop(); r.token == nil {
		t.Fatal("the token is closed without a lock")
	}
	must.OK(t, (session.Agent{Env: w.Env}).LockAgent(t.Context(), nil))
	stop = r.lockWithAgent(t.Context())
	<-closed
	if stop(); r.token != nil {
		t.Error("the token is open after the lock")
	}
}

// agentHolds reports whether an agent holds a token unlocked.
func agentHolds(t *testing.T, w *flowtest.World) bool {
	t.Helper()
	s, err := session.Agent{Env: w.Env}.AgentStatus(t.Context())
	if err != nil {
		return false
	}
	for _, token := range s.Tokens {
		if token.Unlocked {
			return true
		}
	}
	return false
}

// TestHandedOverOnce: what is handed over answers one question for the PIN, and none that a person must answer or that
// could cost one of few tries.
func TestHandedOverOnce(t *testing.T) {
	few := hsm.TokenInfo{PIN: hsm.PINState{Retries: 1}}
	many := hsm.TokenInfo{PIN: hsm.PINState{Retries: 3}}
	p := once(hsm.NewSecret([]byte("123456")))
	for _, q := range []hsm.PINPrompt{{Token: many, Typed: true}, {Token: many, New: true}, {Token: few}} {
		if _, err := p.PIN(t.Context(), q); !errors.Is(err, hsm.ErrCancelled) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if yes, err := p.Confirm(t.Context(), hsm.ConfirmPrompt{}); yes || err == nil {
		t.Error("it confirms")
	}
	a, err := p(t.Context(), ask.Question{PIN: &hsm.PINPrompt{Token: many}})
	if err != nil || string(a.PIN.Bytes()) != "123456" || !a.Given {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := p.PIN(t.Context(), hsm.PINPrompt{Token: many}); !errors.Is(err, hsm.ErrCancelled) {
		t.Errorf("a second time: %v", err)
	}
}
