package prompt

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

// scripted answers PIN prompts with what it is told.
type scripted struct{ err error }

func (s *scripted) ask(_ context.Context, q ask.Question) (ask.Answer, error) {
	switch {
	case s.err != nil:
		return ask.Answer{}, s.err
	case q.PIN != nil:
		return ask.Answer{PIN: hsm.NewSecret([]byte("scripted"))}, nil
	}
	return ask.Answer{Yes: true}, nil
}

func pipeWith(t *testing.T, content string) int {
	t.Helper()
	r, w, err := os.Pipe()
	check(t, err)
	if _, err := w.WriteString(content); err != nil {
		t.Fatal(err)
	}
	check(t, w.Close())
	fd := int(r.Fd())
	t.Cleanup(func() { _ = r.Close() }) // keeps r, and with it the descriptor, alive
	return fd
}

func userPIN(again string) hsm.PINPrompt { return hsm.PINPrompt{Kind: hsm.UserPIN, Again: again} }

func TestFD(t *testing.T) {
	ctx := context.Background()
	f, done := FD(pipeWith(t, "271828\r\nnot the PIN\n"), (&scripted{}).ask)
	for range 2 { // the same PIN for a second, independent prompt
		s, err := f.PIN(ctx, userPIN(""))
		if err != nil || string(s.Bytes()) != "271828" {
			t.Fatalf("%v, %v", s.Len(), err)
		}
		s.Zero()
	}
	if s, err := f.PIN(ctx, hsm.PINPrompt{Kind: hsm.SOPIN}); err != nil || string(s.Bytes()) != "scripted" {
		t.Errorf("another kind: %v", err)
	}
	if _, err := f.PIN(ctx, userPIN("wrong PIN: 2 tries left")); !errors.Is(err, hsm.ErrPINIncorrect) ||
		err.Error() != "wrong PIN: 2 tries left" {
		t.Errorf("after a refusal: %v", err)
	}
	if _, err := f.PIN(ctx, userPIN("")); !errors.Is(err, hsm.ErrPINIncorrect) {
		t.Errorf("a refused PIN was given again: %v", err)
	}
	if s, err := f.PIN(ctx, hsm.PINPrompt{Kind: hsm.UserPIN, New: true}); err != nil || string(s.Bytes()) != "scripted" {
		t.Errorf("the PIN in force was given as the new one: %v", err)
	}
	if yes, err := f.Confirm(ctx, hsm.ConfirmPrompt{}); !yes || err != nil {
		t.Errorf("confirm was not passed on: %v", err)
	}
	done()
	if _, err := f.PIN(ctx, userPIN("")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after its end: %v", err)
	}
}

func TestSecretFD(t *testing.T) {
	ctx := context.Background()
	puk := func(p hsm.PINPrompt) bool { return p.Kind == hsm.PUK && p.New }
	f, done := SecretFD("--new-puk-fd", pipeWith(t, "76543210\n"), puk, (&scripted{}).ask)
	defer done()
	if s, err := f.PIN(ctx, userPIN("")); err != nil || string(s.Bytes()) != "scripted" {
		t.Errorf("a PIN: %v", err)
	}
	if s, err := f.PIN(ctx, hsm.PINPrompt{Kind: hsm.PUK, New: true}); err != nil || string(s.Bytes()) != "76543210" {
		t.Errorf("the new PUK: %v", err)
	}
	_, err := f.PIN(ctx, hsm.PINPrompt{Kind: hsm.PUK, New: true, Again: "too simple"})
	if err == nil || err.Error() != "too simple" || !strings.Contains(hint.Of(err), "PUK came from --new-puk-fd") {
		t.Errorf("refused: %v, %q", err, hint.Of(err))
	}
}

func TestFDBadInput(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "empty line": "\n", "endless": strings.Repeat("x", 5000)} {
		f, done := FD(pipeWith(t, content), None())
		if _, err := f.PIN(context.Background(), userPIN("")); !errors.Is(err, hsm.ErrPINInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		done()
	}
	f, done := FD(987, None())
	defer done()
	if _, err := f.PIN(context.Background(), userPIN("")); err == nil {
		t.Error("a closed descriptor gave a PIN")
	}
}

func TestNone(t *testing.T) {
	if _, err := None().PIN(context.Background(), userPIN("")); !errors.Is(err, hsm.ErrNoTerminal) ||
		!strings.Contains(hint.Of(err), "kubehsm unlock") {
		t.Errorf("%v", err)
	}
	if _, err := None().Confirm(context.Background(), hsm.ConfirmPrompt{}); !errors.Is(err, hsm.ErrNoTerminal) {
		t.Errorf("%v", err)
	}
}
