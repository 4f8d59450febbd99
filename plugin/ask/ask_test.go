package ask_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/test/must"
)

// scripted answers with what it is told.
type scripted struct {
	err   error
	asked int
	no    bool
	seen  ask.Question
	down  int // touches that were taken down
}

func (s *scripted) ask(_ context.Context, q ask.Question) (ask.Answer, error) {
	s.asked++
	s.seen = q
	switch {
	case s.err != nil:
		return ask.Answer{}, s.err
	case q.PIN != nil:
		return ask.Answer{PIN: hsm.NewSecret([]byte("scripted"))}, nil
	case q.Touch != nil:
		return ask.Answer{Done: func() { s.down++ }}, nil
	}
	return ask.Answer{Yes: !s.no}, nil
}

func userPIN(again string) hsm.PINPrompt { return hsm.PINPrompt{Kind: hsm.UserPIN, Again: again} }

// TestPrompter: a driver that knows no more than [hsm.Prompter] asks through a function,
// and the other way round.
func TestPrompter(t *testing.T) {
	ctx, s := context.Background(), &scripted{}
	p := ask.From(struct{ hsm.Prompter }{ask.Func(s.ask)}) // a prompter of another package
	if pin, err := p.PIN(ctx, userPIN("")); err != nil || string(pin.Bytes()) != "scripted" {
		t.Errorf("%v", err)
	}
	if yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{}); err != nil || !yes {
		t.Errorf("%v", err)
	}
	done := p.Touch(ctx, hsm.TouchPrompt{})
	done()
	done()
	if s.down != 2 {
		t.Errorf("taken down %d times", s.down)
	}
	if _, err := p(ctx, ask.Question{Reach: true}); !errors.Is(err, hsm.ErrUnsupported) || s.asked != 3 {
		t.Errorf("what cannot tell: %v", err)
	}
	s.err = hsm.ErrNoTerminal
	p.Touch(ctx, hsm.TouchPrompt{})() // shows nothing
	if ask.From(nil) != nil || ask.Func(nil).Prompter() != nil || ask.With(nil, hsm.Purpose{}) != nil {
		t.Error("nobody became somebody")
	}
}

// TestFor: the purpose nearest to who asks counts, a notice stays, and the question of
// whoever asked is left alone.
func TestFor(t *testing.T) {
	s := &scripted{}
	want := hsm.Purpose{Cluster: "prod", Action: "sign in", Command: "kubectl get pods",
		Fields: []hsm.Field{{Label: "Request", Values: []string{"get pods"}}}}
	far := ask.By("k9s")(ask.For(hsm.Purpose{Action: "unlock the token"})(s.ask))
	near := ask.For(want)(far)
	q := ask.Question{PIN: &hsm.PINPrompt{Kind: hsm.UserPIN, Purpose: hsm.Purpose{Notice: "read this"}}}
	if _, err := near(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	want.Notice = "read this"
	if got := s.seen.PIN.Purpose; !reflect.DeepEqual(got, want) {
		t.Errorf("purpose %+v", got)
	}
	if !reflect.DeepEqual(q.PIN.Purpose, hsm.Purpose{Notice: "read this"}) {
		t.Errorf("the question was changed: %+v", q.PIN.Purpose)
	}
	far.Touch(t.Context(), hsm.TouchPrompt{})()
	if got := s.seen.Touch.Purpose; !reflect.DeepEqual(got, hsm.Purpose{Action: "unlock the token", Command: "k9s"}) {
		t.Errorf("purpose %+v", got)
	}
}

func TestFirst(t *testing.T) {
	ctx := context.Background()
	none, some := &scripted{err: hint.With(hsm.ErrNoTerminal, "h")}, &scripted{}
	if s, err := ask.First(none.ask, some.ask).PIN(ctx, userPIN("")); err != nil || s.Len() == 0 {
		t.Errorf("%v", err)
	}
	if yes, err := ask.First(none.ask, some.ask).Confirm(ctx, hsm.ConfirmPrompt{}); err != nil || !yes {
		t.Errorf("%v", err)
	}
	if _, err := ask.First(none.ask, none.ask).PIN(ctx, userPIN("")); !errors.Is(err, hsm.ErrNoTerminal) ||
		hint.Of(err) != "h" {
		t.Errorf("%v", err)
	}
	declined := &scripted{err: hsm.ErrCancelled}
	some.asked = 0
	if _, err := ask.First(declined.ask, some.ask).PIN(ctx, userPIN("")); !errors.Is(err, hsm.ErrCancelled) ||
		some.asked != 0 {
		t.Errorf("a declined prompt was asked again elsewhere: %v", err)
	}
}

// TestCoolDownOfQuestions: the very question that was declined does not come back
// at once, any other does, and what is noted of them does not pile up.
func TestCoolDownOfQuestions(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	under := &scripted{no: true}
	p := ask.CoolDown(dir, time.Hour, 1)(under.ask)
	if yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{Question: "a"}); yes || err != nil || under.asked != 1 {
		t.Fatalf("%v, %v, asked %d times", yes, err, under.asked)
	}
	if yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{Question: "a"}); yes || !errors.Is(err, hsm.ErrCancelled) ||
		under.asked != 1 {
		t.Fatalf("the question came back: %v, %v, asked %d times", yes, err, under.asked)
	}
	files, err := filepath.Glob(filepath.Join(dir, "declined-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	then := time.Now().Add(-2 * time.Hour)
	must.OK(t, os.Chtimes(files[0], then, then))
	if yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{Question: "a", Detail: "b"}); yes || err != nil || under.asked != 2 {
		t.Fatalf("another question was silenced: %v, %v", yes, err)
	}
	if files, err = filepath.Glob(filepath.Join(dir, "declined-*")); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
	under.no = false
	if yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{Question: "a"}); !yes || err != nil {
		t.Errorf("after the cool-down: %v, %v", yes, err)
	}
}

func TestCoolDown(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	under := &scripted{err: hsm.ErrCancelled}
	p := ask.CoolDown(dir, time.Hour, 1)(under.ask)
	pin := func(token string) error {
		_, err := p.PIN(ctx, hsm.PINPrompt{Token: hsm.TokenInfo{Label: token}})
		return err
	}
	if err := pin("a/../x"); !errors.Is(err, hsm.ErrCancelled) || under.asked != 1 {
		t.Fatalf("%v, asked %d times", err, under.asked)
	}
	if err := pin("a/../x"); !errors.Is(err, hsm.ErrCancelled) || under.asked != 1 ||
		!strings.Contains(hint.Of(err), "it is asked for again in 1 hour") {
		t.Fatalf("the prompt came back: %v, asked %d times", err, under.asked)
	}
	if err := pin("b"); !errors.Is(err, hsm.ErrCancelled) || under.asked != 2 {
		t.Fatalf("another token was silenced: %v", err)
	}
	elsewhere := &scripted{}
	if _, err := ask.CoolDown(dir, time.Hour, 2)(elsewhere.ask).PIN(ctx,
		hsm.PINPrompt{Token: hsm.TokenInfo{Label: "b"}}); err != nil || elsewhere.asked != 1 {
		t.Fatalf("another window was silenced: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "cancelled-*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files { // age the file by two hours
		then := time.Now().Add(-2 * time.Hour)
		must.OK(t, os.Chtimes(f, then, then))
	}
	under.err = nil
	if err := pin("b"); err != nil || under.asked != 3 {
		t.Fatalf("after the cool-down: %v", err)
	}
	if files, _ = filepath.Glob(filepath.Join(dir, "cancelled-*")); len(files) != 1 {
		t.Errorf("an answered prompt left its mark: %v", files)
	}
	withdrawn, withdraw := context.WithCancelCause(ctx)
	withdraw(ask.ErrGone)
	under.err = context.Canceled
	for want := 4; want < 6; want++ {
		if _, err := p.PIN(withdrawn, hsm.PINPrompt{Token: hsm.TokenInfo{Label: "b"}}); err == nil || under.asked != want {
			t.Errorf("a prompt that nobody declined: %v, asked %d times", err, under.asked)
		}
	}
}

// TestDriverKnowsNoPurpose: the prompts of a driver that was given a prompter with a
// purpose name it, and what the driver itself says of the token.
func TestDriverKnowsNoPurpose(t *testing.T) {
	fake := hsmtest.NewFake(hsm.SchemePKCS11)
	token, err := fake.Open(t.Context(), fake.Add(hsmtest.FakeOptions{Label: "lab", PIN: "847261"}).Info().URI())
	must.OK(t, err)
	script := hsmtest.NewScript(t, hsmtest.PIN("000000"), hsmtest.PIN("847261"))
	want := hsm.Purpose{Cluster: "prod", Action: "sign in", Command: "kubectl get pods",
		Fields: []hsm.Field{{Label: "Request", Values: []string{"get pods"}}}}
	must.OK(t, token.Unlock(t.Context(), ask.With(script, want)))
	for i, p := range script.PINs() {
		if !reflect.DeepEqual(p.Purpose, want) || p.Token.Label != "lab" || (p.Again == "") != (i == 0) {
			t.Errorf("%+v", p)
		}
	}
}
