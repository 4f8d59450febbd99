package hsmtest

import (
	"context"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
)

// Answer is one scripted answer to a PIN or confirm prompt.
type Answer struct {
	pin  *string
	yes  *bool
	err  error
	hang bool
	up   chan<- struct{} // closed once a hanging prompt is shown
	do   func()
	text string
}

// Doing is a, given after f has been called: what happens while the prompt is up.
func (a Answer) Doing(f func()) Answer {
	a.do = f
	return a
}

// PIN answers a PIN prompt.
func PIN(pin string) Answer { return Answer{pin: &pin, text: "a PIN"} }

// Yes confirms.
func Yes() Answer { yes := true; return Answer{yes: &yes, text: "yes"} }

// No declines a confirmation.
func No() Answer { no := false; return Answer{yes: &no, text: "no"} }

// Cancel answers any prompt with [hsm.ErrCancelled].
func Cancel() Answer { return Fail(hsm.ErrCancelled) }

// Fail answers any prompt with err.
func Fail(err error) Answer { return Answer{err: err, text: err.Error()} }

// Hang leaves any prompt unanswered until its context ends. It closes up, if
// not nil, once the prompt is shown.
func Hang(up chan<- struct{}) Answer {
	return Answer{hang: true, up: up, err: context.Canceled, text: "a hang"}
}

// Prompt is one recorded prompt: exactly one field is set.
type Prompt struct {
	PIN     *hsm.PINPrompt
	Confirm *hsm.ConfirmPrompt
	Touch   *hsm.TouchPrompt
}

// Script is a [hsm.Prompter] that gives scripted answers in order and records
// what it was asked. An unexpected prompt fails the test and is answered with
// [hsm.ErrCancelled]. Touch prompts need no answer. It is safe for concurrent use.
type Script struct {
	t       testing.TB
	mu      sync.Mutex
	answers []Answer
	typed   map[hsm.PINKind]string
	prompts []Prompt
	waiting int // touch prompts that are up
	lax     bool
}

var _ hsm.Prompter = (*Script)(nil)

// NewScript returns a prompter for t that gives answers once each, in order.
// Answers that were not asked for fail the test at its end. Without answers,
// any question fails the test.
func NewScript(t testing.TB, answers ...Answer) *Script {
	s := &Script{t: t, answers: answers}
	t.Cleanup(func() {
		if left := s.Left(); left > 0 && !s.lax && !t.Failed() {
			t.Errorf("hsmtest: %d scripted answer(s) were never asked for, the next is %s", left, s.answers[0].text)
		}
	})
	return s
}

// Typing returns a prompter that answers every prompt for the user PIN (also
// the PIV PIN) with pin, as often as asked. Other questions fail the test.
func Typing(t testing.TB, pin string) *Script {
	return TypingAll(t, map[hsm.PINKind]string{hsm.UserPIN: pin, hsm.PIVPIN: pin})
}

// TypingAll is [Typing] with an answer for each kind of secret.
func TypingAll(t testing.TB, secrets map[hsm.PINKind]string) *Script {
	return &Script{t: t, typed: secrets}
}

// Lax is s, for which answers that are left over are no failure.
func (s *Script) Lax() *Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lax = true
	return s
}

// Left returns the number of answers not yet asked for.
func (s *Script) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.answers)
}

// Prompts returns what was asked, oldest first.
func (s *Script) Prompts() []Prompt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Prompt(nil), s.prompts...)
}

// PINs returns the PIN prompts among [Script.Prompts].
func (s *Script) PINs() []hsm.PINPrompt {
	var pins []hsm.PINPrompt
	for _, p := range s.Prompts() {
		if p.PIN != nil {
			pins = append(pins, *p.PIN)
		}
	}
	return pins
}

// Waiting returns the number of touch prompts that are up now.
func (s *Script) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// PIN implements [hsm.Prompter].
func (s *Script) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	a, ok := s.next(Prompt{PIN: &p})
	switch {
	case !ok || (a.pin == nil && a.err == nil):
		s.t.Errorf("hsmtest: unexpected PIN prompt: %+v", p)
		return nil, hsm.ErrCancelled
	case a.err != nil:
		return nil, a.fail(ctx)
	}
	return hsm.NewSecret([]byte(*a.pin)), nil
}

// Confirm implements [hsm.Prompter].
func (s *Script) Confirm(ctx context.Context, p hsm.ConfirmPrompt) (bool, error) {
	a, ok := s.next(Prompt{Confirm: &p})
	switch {
	case !ok || (a.yes == nil && a.err == nil):
		s.t.Errorf("hsmtest: unexpected question: %+v", p)
		return false, hsm.ErrCancelled
	case a.err != nil:
		return false, a.fail(ctx)
	}
	return *a.yes, nil
}

// Touch implements [hsm.Prompter].
func (s *Script) Touch(_ context.Context, p hsm.TouchPrompt) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompts = append(s.prompts, Prompt{Touch: &p})
	s.waiting++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting--
	})
}

func (s *Script) next(p Prompt) (Answer, bool) {
	a, ok := s.take(p)
	if a.do != nil {
		a.do()
	}
	return a, ok
}

func (s *Script) take(p Prompt) (Answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompts = append(s.prompts, p)
	if p.PIN != nil {
		if secret, ok := s.typed[p.PIN.Kind]; ok {
			return PIN(secret), true
		}
	}
	if len(s.answers) == 0 {
		return Answer{}, false
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a, true
}

func (a Answer) fail(ctx context.Context) error {
	if !a.hang {
		return a.err
	}
	if a.up != nil {
		close(a.up)
	}
	<-ctx.Done()
	return ctx.Err()
}
