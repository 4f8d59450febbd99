package token

import (
	"context"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// lockedMeanwhile is a token that is locked while it answers.
type lockedMeanwhile struct {
	worker.Token
	lock func()
}

func (l lockedMeanwhile) Unlock(context.Context, hsm.Prompter) error {
	l.lock()
	return nil
}

func (l lockedMeanwhile) Unlocked() bool {
	l.lock()
	return true
}

func (lockedMeanwhile) Lock() error  { return nil }
func (lockedMeanwhile) Close() error { return nil }

// oneToken is where that token comes from.
type oneToken struct {
	worker.Tokens
	token worker.Token
}

func (o oneToken) Open(context.Context, hsm.URI) (worker.Token, error) { return o.token, nil }

func (oneToken) Removed(ctx context.Context, _ worker.Token) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestLockWhileItAnswers: what a token said before it was locked does not count
// after: its unlock window does not begin.
func TestLockWhileItAnswers(t *testing.T) {
	for name, f := range map[string]func(*Held) error{
		"unlock": func(h *Held) error { return h.Unlock(t.Context(), Use{}, func(error) {}) },
		"window": func(h *Held) error {
			_, err := h.open(t.Context())
			h.Window(time.Now())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var h *Held
			token := &lockedMeanwhile{lock: func() { check(t, h.Lock()) }}
			h = newHeld(hsm.URI{}, Options{Tokens: oneToken{token: token}})
			check(t, f(h))
			if since, _, ok := h.Window(time.Now()); ok {
				t.Errorf("unlocked since %s", since)
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
