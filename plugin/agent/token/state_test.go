package token

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// moody is an unlocked token that answers as told.
type moody struct {
	lockedMeanwhile
	fails  error
	hangs  chan struct{}
	looked int
}

func (m *moody) Info(context.Context) (hsm.TokenInfo, error) {
	m.looked++
	if m.hangs != nil {
		<-m.hangs // A library may ignore that the context has ended.
	}
	return hsm.TokenInfo{}, m.fails
}

func (m *moody) Unlocked() bool { return true }

// TestState: a token is called unlocked only if it answers so, in bounded time. One that is
// at work is not disturbed, and one that was just asked is not asked again.
func TestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moody{lockedMeanwhile: lockedMeanwhile{lock: func() {}}}
		h := newHeld(hsm.URI{}, Options{Tokens: oneToken{token: m}})
		if s := h.State(false); s != (State{}) {
			t.Errorf("not held: %+v", s)
		}
		check(t, h.Unlock(t.Context(), Use{}, func(error) {}))
		is := func(what string, unlocked bool, problem error, looked int) {
			t.Helper()
			s := h.State(false)
			synctest.Wait() // the token may still be at it
			if s.Unlocked != unlocked || !s.Open || !errors.Is(s.Problem, problem) || m.looked != looked {
				t.Errorf("%s: %+v, asked %d times", what, s, m.looked)
			}
		}
		is("unlocked just now", true, nil, 0)
		time.Sleep(stateFor)
		is("good", true, nil, 1)
		m.fails = hsm.ErrNoToken
		is("asked just now", true, nil, 1)
		time.Sleep(stateFor)
		done := h.atWork()
		is("at work", true, nil, 1)
		done()
		is("gone", false, hsm.ErrNoToken, 2)
		m.fails, m.hangs = nil, make(chan struct{})
		is("dropped", false, hsm.ErrNoToken, 2)
		check(t, h.Unlock(t.Context(), Use{}, func(error) {}))
		time.Sleep(stateFor)
		began := time.Now()
		is("hung", false, ErrSilent, 3)
		if took := time.Since(began); took != stateTimeout {
			t.Errorf("took %s", took)
		}
		close(m.hangs)
		synctest.Wait()
		m.hangs = nil
		is("answers again", true, nil, 4)
		check(t, h.Lock("asked"))
		if s := h.State(false); s != (State{}) {
			t.Errorf("locked: %+v", s)
		}
	})
}

// TestRecent: who does not wait is told what the token said last, and the next one what it has
// said since.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moody{lockedMeanwhile: lockedMeanwhile{lock: func() {}}}
		h := newHeld(hsm.URI{}, Options{Tokens: oneToken{token: m}})
		if s := h.State(true); s != (State{}) {
			t.Errorf("not held: %+v", s)
		}
		check(t, h.Unlock(t.Context(), Use{}, func(error) {}))
		time.Sleep(stateFor)
		m.hangs = make(chan struct{})
		for range 3 {
			began := time.Now()
			s := h.State(true)
			if took := time.Since(began); !s.Unlocked || s.Problem != nil || took > 0 {
				t.Errorf("%+v after %s", s, took)
			}
			synctest.Wait()
		}
		if m.looked != 1 {
			t.Errorf("asked %d times at once", m.looked)
		}
		m.fails = hsm.ErrNoToken
		close(m.hangs)
		synctest.Wait()
		if s := h.State(true); s.Unlocked {
			t.Errorf("gone: %+v", s)
		}
		check(t, h.Lock("asked"))
	})
}

// TestStateOfALostToken: while a token that was lost cannot be opened again, its state says
// why, and that what it signed may be open.
func TestStateOfALostToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moody{lockedMeanwhile: lockedMeanwhile{lock: func() {}}}
		o := &unreachable{oneToken: oneToken{token: m}}
		h := newHeld(hsm.URI{}, Options{Tokens: o})
		check(t, h.Unlock(t.Context(), Use{}, func(error) {}))
		o.fails = hsm.ErrModule
		check(t, h.drop(h.current(), hsm.ErrRemoved))
		time.Sleep(2 * worker.LookEvery)
		if s := h.State(false); s.Unlocked || !s.Open || !errors.Is(s.Problem, hsm.ErrModule) {
			t.Errorf("%+v", s)
		}
		check(t, h.Lock("asked"))
		if s := h.State(false); s != (State{}) {
			t.Errorf("locked: %+v", s)
		}
	})
}

// TestServerOfATokenIsLost: a token whose server was lost is locked at once, whoever finds out:
// its login has ended, so that what stands on it must end, too, even if the server is back.
func TestServerOfATokenIsLost(t *testing.T) {
	for name, find := range map[string]func(h *Held, p pullable) error{
		"the look after it": func(_ *Held, p pullable) error {
			p.pulled <- fmt.Errorf("no server: %w", hsm.ErrDisconnected)
			return nil
		},
		"a use": func(h *Held, _ pullable) error { return h.drop(h.current(), hsm.ErrDisconnected) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pullable{oneToken{token: &moody{lockedMeanwhile: lockedMeanwhile{lock: func() {}}}}, make(chan error)}
				told := false
				h := newHeld(hsm.URI{}, Options{Tokens: p, Removed: func(h *Held, disconnected bool) {
					told = disconnected
					check(t, h.Lock("disconnected"))
				}})
				check(t, h.Unlock(t.Context(), Use{}, func(error) {}))
				check(t, find(h, p))
				synctest.Wait()
				if s := h.State(false); s.Open || s.Unlocked || !told {
					t.Errorf("%+v, told %t", s, told)
				}
				check(t, h.Unlock(t.Context(), Use{}, func(error) {}))
				if s := h.State(false); !s.Unlocked || !s.Open {
					t.Errorf("unlocked again: %+v", s)
				}
				check(t, h.Lock("asked"))
			})
		})
	}
}

// unreachable is where a token comes from until it cannot be opened.
type unreachable struct {
	oneToken
	fails error
}

func (u *unreachable) Open(ctx context.Context, uri hsm.URI) (worker.Token, error) {
	if u.fails != nil {
		return nil, u.fails
	}
	return u.oneToken.Open(ctx, uri)
}

// TestUnlockWhileItGoes: an unlock of a token that was pulled and is back waits for the lock
// that the pull brings, and is not undone by it.
func TestUnlockWhileItGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &counted{moody: moody{lockedMeanwhile: lockedMeanwhile{lock: func() {}}}}
		pulled := make(chan error)
		h := newHeld(hsm.URI{}, Options{Tokens: pullable{oneToken{token: m}, pulled}, Removed: func(h *Held, _ bool) {
			time.Sleep(time.Second) // The token's sessions end meanwhile.
			check(t, h.Lock("removed"))
		}})
		check(t, h.Unlock(t.Context(), Use{}, func(error) {}))
		pulled <- nil
		synctest.Wait()
		check(t, h.Unlock(t.Context(), Use{}, func(error) {}))
		synctest.Wait()
		if s := h.State(false); !s.Unlocked || m.unlocks != 2 {
			t.Errorf("%+v after %d unlocks", s, m.unlocks)
		}
		check(t, h.Lock("asked"))
	})
}

// counted counts how often it was unlocked.
type counted struct {
	moody
	unlocks int
}

func (c *counted) Unlock(context.Context, hsm.Prompter) error {
	c.unlocks++
	return nil
}

// pullable is where a token comes from that can be pulled.
type pullable struct {
	oneToken
	pulled chan error
}

func (p pullable) Removed(ctx context.Context, _ worker.Token) error {
	select {
	case err := <-p.pulled:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestUnlockThatNobodyAwaits: a token that takes the PIN slowly is not unlocked for whoever has
// left meanwhile; one whose prompt was left is not touched.
func TestUnlockThatNobodyAwaits(t *testing.T) {
	for name, typed := range map[string]bool{"the PIN was typed": true, "the prompt was left": false} {
		ctx, leave := context.WithCancel(t.Context())
		slow := &slowLogin{moody: moody{lockedMeanwhile: lockedMeanwhile{lock: func() {}}}, leave: leave}
		h := newHeld(hsm.URI{}, Options{Tokens: oneToken{token: slow}})
		asking := func(ctx context.Context, q ask.Question) (ask.Answer, error) {
			if !typed {
				leave()
				return ask.Answer{}, ctx.Err()
			}
			return ask.Answer{PIN: hsm.NewSecret([]byte("123456"))}, nil
		}
		if err := h.Unlock(ctx, Use{Ask: asking}, func(error) {}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if (slow.locks > 0) != typed {
			t.Errorf("%s: locked %d times", name, slow.locks)
		}
		check(t, h.Lock("asked"))
	}
}

// slowLogin is a token whose user leaves while the PIN is on its way.
type slowLogin struct {
	moody
	leave func()
	locks int
}

func (s *slowLogin) Unlock(ctx context.Context, p hsm.Prompter) error {
	if _, err := p.PIN(ctx, hsm.PINPrompt{Kind: hsm.UserPIN}); err != nil {
		return err
	}
	s.leave()
	return ctx.Err()
}

func (s *slowLogin) Unlocked() bool { return false }

func (s *slowLogin) Lock() error {
	s.locks++
	return nil
}
