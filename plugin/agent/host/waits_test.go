//go:build unix

package host

import (
	"context"
	"crypto"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/signing"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/poll"
)

// waits are what a client was told that it waits for.
type waits struct {
	mu   sync.Mutex
	up   int
	told []ask.Wait
}

func (w *waits) show(wait ask.Wait) (done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up++
	w.told = append(w.told, wait)
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.up--
	})
}

// shown returns what is shown now, nil if nothing is.
func (w *waits) shown() *ask.Wait {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.up == 0 {
		return nil
	}
	last := w.told[len(w.told)-1]
	return &last
}

// waiting is a client that tells w.
func (r *rig) waiting(w *waits) *client.Client {
	r.t.Helper()
	c := r.dial()
	c.Waiting = w.show
	return c
}

// quietly is a prompter that makes sure that nothing is said to be waited for while
// it asks.
type quietly struct {
	hsm.Prompter
	t *testing.T
	w *waits
}

func (q quietly) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	if s := q.w.shown(); s != nil {
		q.t.Errorf("asked while %+v is shown", s)
	}
	return q.Prompter.PIN(ctx, p)
}

// TestToldWhoIsAsked: whoever waits while another is asked for the PIN is told so:
// for the same enrollment and for another one of the token, until it goes on.
func TestToldWhoIsAsked(t *testing.T) {
	r := newRig(t, rigOptions{})
	other := r.e
	other.Name = "stage"
	r.save(other)
	chain, err := r.store.Certificate(r.e)
	check(t, err)
	check(t, r.store.SaveCertificate(other, chain))

	first := elsewhere(t)
	asked := make(chan struct{})
	result := map[string]chan error{"first": make(chan error, 1), "prod": make(chan error, 1),
		"stage": make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	var own waits
	go func() {
		_, err := r.waiting(&own).Prepare(ctx, client.PrepareRequest{Enrollment: "prod", Purpose: as(first)},
			hsmtest.NewScript(t, hsmtest.Hang(asked)))
		result["first"] <- err
	}()
	<-asked
	told := map[string]*waits{"prod": {}, "stage": {}}
	for name, w := range told {
		go func() {
			_, err := r.waiting(w).Prepare(t.Context(), client.PrepareRequest{Enrollment: name, Purpose: as(elsewhere(t))},
				quietly{hsmtest.Typing(t, pin), t, w})
			result[name] <- err
		}()
	}
	want := ask.Wait{For: ask.ForPIN, Kind: string(hsm.UserPIN), Token: r.token.Info().Name(), Client: first, Asker: first}
	for name, w := range told {
		poll.Until(t, name+" is told", func() bool { s := w.shown(); return s != nil && *s == want })
	}
	if asked := r.status().Tokens[0].Asked; !slices.Contains(asked, want) {
		t.Errorf("the status tells of %+v", asked)
	}
	r.mustAgent(func(a *agent) { // before it is told of, or after
		f := a.flights
		poll.Until(t, "one waits for the first",
			func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.running["prod"].waiting == 1 })
	})
	own.mu.Lock()
	if len(own.told) != 0 { // once it has given up, it may hear of who asks next
		t.Errorf("who is asked was told %v", own.told)
	}
	own.mu.Unlock()
	cancel()
	if err := <-result["first"]; !errors.Is(err, context.Canceled) && !errors.Is(err, hsm.ErrCancelled) {
		t.Error(err)
	}
	if err := <-result["prod"]; !errors.Is(err, hsm.ErrCancelled) { // the no of a terminal that nobody knows
		t.Error(err)
	}
	check(t, <-result["stage"]) // asked itself then
	own.mu.Lock()
	if slices.ContainsFunc(own.told, func(w ask.Wait) bool { return w.Client == first }) {
		t.Errorf("who was asked was told of its own question: %v", own.told)
	}
	own.mu.Unlock()
	for name, w := range told {
		if w.shown() != nil {
			t.Errorf("%s is still told", name)
		}
	}
}

// TestPINAtHand: a question for the PIN that is forgotten in an open kubehsm keeps nobody who has the PIN at hand. It is
// withdrawn, and put again only if the token stays locked.
func TestPINAtHand(t *testing.T) {
	for name, tc := range map[string]struct {
		given string
		want  error
		again []hsmtest.Answer
	}{
		"right": {given: pin},
		"wrong": {"000000", hsm.ErrPINIncorrect, []hsmtest.Answer{hsmtest.PIN(pin)}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			asked := make(chan struct{})
			r.attendedBy(process.ID{}, ask.From(hsmtest.NewScript(t, append([]hsmtest.Answer{hsmtest.Hang(asked)}, tc.again...)...)))
			result := make(chan error, 1)
			go func() {
				_, err := r.dial().Prepare(t.Context(), client.PrepareRequest{Enrollment: "prod", Purpose: as(elsewhere(t))}, nil)
				result <- err
			}()
			<-asked
			source := func(_ context.Context, q ask.Question) (ask.Answer, error) {
				if q.PIN == nil || q.PIN.Again != "" {
					return ask.Answer{}, tc.want
				}
				return ask.Answer{PIN: hsm.NewSecret([]byte(tc.given)), Given: true}, nil
			}
			c := r.dial()
			c.Given = true
			if err := c.Unlock(t.Context(), "prod", ask.Func(source)); !errors.Is(err, tc.want) {
				t.Error(err)
			}
			check(t, <-result)
		})
	}
}

// TestToldOfATouch: a touch that another client's signature waits for is told of,
// to the plugin and to the external signer.
func TestToldOfATouch(t *testing.T) {
	r := newRig(t, rigOptions{token: hsmtest.FakeOptions{TouchPolicy: hsm.TouchAlways}})
	first := elsewhere(t)
	unlocked := r.dial()
	check(t, unlocked.Unlock(t.Context(), "prod", hsmtest.Typing(t, pin)))
	result := make(chan error, 3)
	person := hsmtest.NewScript(t)
	go func() {
		_, err := r.dial().Prepare(t.Context(), client.PrepareRequest{Enrollment: "prod", Purpose: as(first)}, person)
		result <- err
	}()
	poll.Until(t, "a touch is awaited", func() bool { return person.Waiting() > 0 })
	want := ask.Wait{For: ask.ForTouch, Token: r.token.Info().Name(), Client: first, Asker: first}
	var plugin, signer waits
	go func() {
		_, err := r.waiting(&plugin).Prepare(t.Context(), client.PrepareRequest{Enrollment: "prod", Purpose: as(elsewhere(t))},
			hsmtest.NewScript(t))
		result <- err
	}()
	poll.Until(t, "the plugin is told", func() bool { s := plugin.shown(); return s != nil && *s == want })
	// A card is one operation's at a time.
	free := make(chan struct{})
	r.token.Before(func(ctx context.Context, op hsmtest.Op) error {
		if op == hsmtest.OpSign {
			<-free
		}
		return nil
	})
	go func() {
		a := signing.Agent{Socket: r.dirs.Socket(), Waiting: signer.show,
			Prompter: hsmtest.NewScript(t)}
		_, held, err := a.Sign(t.Context(), r.slot.URI.Identity(), make([]byte, 32), crypto.SHA256)
		if err == nil && !held {
			err = hsm.ErrPINRequired
		}
		result <- err
	}()
	poll.Until(t, "the signer is told", func() bool { s := signer.shown(); return s != nil && *s == want })
	r.token.Touch()
	check(t, <-result)
	check(t, <-result)
	poll.Until(t, "nothing is said any more", func() bool { return plugin.shown() == nil && signer.shown() == nil })
	close(free)
	r.token.Touch()
	check(t, <-result)
}
