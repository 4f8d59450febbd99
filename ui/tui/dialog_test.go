package tui_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/ui/tui"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// softInfo describes a token as a driver does.
func softInfo() hsm.TokenInfo {
	return hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Label: "trial", Serial: "8fc1d3a25d90be17", Initialized: true,
		PIN: hsm.PINState{Retries: -1, MinLen: 4, MaxLen: 255}}
}

// cardInfo describes a card as a driver does.
func cardInfo() hsm.TokenInfo {
	return hsm.TokenInfo{Scheme: hsm.SchemePIV, Model: "YubiKey 5C NFC", Manufacturer: "Yubico", Serial: "12345678",
		Initialized: true,
		PIN:         hsm.PINState{Retries: 2, Low: true, MinLen: 6, MaxLen: 8}}
}

// TestGrace: a dialog that opens by itself drops what was typed for the screen
// before it.
func TestGrace(t *testing.T) {
	now := tuitest.Now()
	sent := make(chan tea.Msg, 4)
	p := ask.Func(dialog.NewPrompter(func(m tea.Msg) { sent <- m }, keys.Default(), dialog.Grace, 0).Ask)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	got := make(chan string, 1)
	go func() {
		s, err := p.PIN(ctx, hsm.PINPrompt{Kind: hsm.UserPIN, Retries: -1, Token: softInfo()})
		if err != nil {
			got <- err.Error()
			return
		}
		defer s.Zero()
		got <- string(s.Bytes())
	}()
	open, ok := (<-sent).(dialog.OpenMsg)
	if !ok {
		t.Fatal("no dialog")
	}
	d := open.Dialog
	d.Open(now)
	for i, k := range tuitest.Keys(`"yy"`) { // the second extends nothing beyond the cap
		if closed, _ := d.Update(k, now.Add(time.Duration(i)*100*time.Millisecond)); closed {
			t.Fatal("closed")
		}
	}
	if closed, _ := d.Update(tuitest.Keys("enter")[0], now.Add(200*time.Millisecond)); closed {
		t.Fatal("enter was typed ahead and counted")
	}
	now = now.Add(time.Second)
	for _, k := range append(tuitest.Keys(`"12345"`), tuitest.Keys("backspace")...) {
		d.Update(k, now)
	}
	closed, _ := d.Update(tuitest.Keys("enter")[0], now)
	if !closed {
		t.Fatal("still open")
	}
	d.Drop()
	if pin := <-got; pin != "1234" {
		t.Errorf("got %q", pin)
	}
}

// TestPromptEnds: a prompt whose asker gives up closes its dialog, and one that
// is closed answers that it was cancelled.
func TestPromptEnds(t *testing.T) {
	r := newWorld(t).open(80, 24)
	atTokens(r)
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error, 1)
	ask := func() {
		_, err := tui.Prompter(r.Model()).PIN(ctx, hsm.PINPrompt{Kind: hsm.PIVPIN, Token: cardInfo(), Retries: 3})
		errs <- err
	}
	go ask()
	r.Sees("PIV PIN of YubiKey")
	cancel()
	r.Until("closed", func() bool { return tui.OpenDialogs(r.Model()) == 0 })
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	ctx = context.Background()
	go ask()
	r.Walk("~PIV PIN of YubiKey", "~FIDO PIN", "~3 tries left", "esc")
	if err := <-errs; !errors.Is(err, hsm.ErrCancelled) {
		t.Errorf("got %v", err)
	}
	go func() { // whatever a driver says of the last one
		_, err := tui.Prompter(r.Model()).PIN(ctx,
			hsm.PINPrompt{Kind: hsm.PIVPIN, Token: cardInfo(), Retries: 2, Again: "nothing is left of it"})
		errs <- err
	}()
	r.Walk("~nothing is left of it", "~2 tries left", "esc")
	if err := <-errs; !errors.Is(err, hsm.ErrCancelled) {
		t.Errorf("got %v", err)
	}
	go func() { // the state that comes with a PUK is the PUK's
		info := cardInfo()
		info.PIN = hsm.PINState{Retries: 3, Default: true}
		_, err := tui.Prompter(r.Model()).PIN(ctx, hsm.PINPrompt{Kind: hsm.PUK, Token: info, Retries: 3})
		errs <- err
	}()
	r.Walk("~PUK of YubiKey", "~The default PUK is still in force", "esc")
	if err := <-errs; !errors.Is(err, hsm.ErrCancelled) {
		t.Errorf("got %v", err)
	}
}

// TestTouch: the dialog rings after a while and goes when the token was touched.
func TestTouch(t *testing.T) {
	r := newWorld(t).open(80, 24)
	atTokens(r)
	done := tui.Prompter(r.Model()).Touch(context.Background(),
		hsm.TouchPrompt{Token: cardInfo(), Purpose: hsm.Purpose{Cluster: "trial", Action: "sign in"}})
	r.Sees("Touch YubiKey", "To sign in to trial")
	r.Time = r.Time.Add(6 * time.Second)
	r.Send(tui.Tick())
	r.Until("bell", func() bool {
		for _, m := range r.Given {
			if raw, ok := m.(tea.RawMsg); ok && raw.Msg == "\a" {
				return true
			}
		}
		return false
	})
	go done()
	r.Until("closed", func() bool { return tui.OpenDialogs(r.Model()) == 0 })
}

// TestNewSecret: a new secret is typed twice.
func TestNewSecret(t *testing.T) {
	r := newWorld(t).open(80, 24)
	atTokens(r)
	got := make(chan string, 1)
	go func() {
		s, err := tui.Prompter(r.Model()).PIN(context.Background(),
			hsm.PINPrompt{Kind: hsm.PIVPIN, Token: cardInfo(), Retries: -1, New: true})
		if err != nil {
			got <- err.Error()
			return
		}
		defer s.Zero()
		got <- string(s.Bytes())
	}()
	r.Walk("~New PIV PIN", `"123456"`, "enter", "~Repeat it", `"123457"`, "enter", "~The two entries differ.",
		`"123"`, "enter", "~at least 6", `"246810"`, "enter", `"246810"`, "enter")
	if s := <-got; s != "246810" {
		t.Errorf("got %q", s)
	}
}

// TestQuestionInADialog: a question about a request shows what is needed to decide, with the
// answer below, in small windows too, and so do the touch that is its answer and the PIN of a
// locked token. What has no room is marked, and one key shows all of it.
func TestQuestionInADialog(t *testing.T) {
	var fields []hsm.Field
	last := func(label string) string { return "end-" + strings.ReplaceAll(label, " ", "-") }
	needed := []string{"Request", "Name", "Namespace", "As", "Does", "Program", "Cluster", "A yes"}
	add := func(minor bool, labels ...string) {
		for _, label := range labels {
			values := []string{strings.Repeat("long ", 30) + last(label)}
			if label == "As" || label == "Does" {
				values = append(values, "x", "y")
			}
			fields = append(fields, hsm.Field{Label: label, Values: values, Minor: minor})
		}
	}
	add(false, needed...)
	add(true, "Body", "Process")
	purpose := hsm.Purpose{Cluster: "prod", Action: "allow “it”", Fields: fields}
	for _, size := range [][2]int{{60, 15}, {80, 24}, {110, 34}} {
		r := newWorld(t).open(size[0], size[1])
		atTokens(r)
		p := tui.Prompter(r.Model())
		readable := func(answer ...string) {
			t.Helper()
			seen := slices.Clone(answer)
			if r.Sees(answer...); strings.Contains(r.View(), "shows all") || strings.Contains(r.View(), "…") {
				seen = append(seen, "↓ show all")
			}
			if len(answer) < 2 || size[1] > 15 { // A PIN takes more of the screen.
				seen = append(seen, needed...)
			}
			r.Sees(seen...)
			found := map[string]bool{}
			for range 60 {
				for _, f := range fields {
					found[f.Label] = found[f.Label] || strings.Contains(r.View(), last(f.Label))
				}
				r.Press("down")
			}
			r.Sees(answer...)
			for _, f := range fields {
				if !found[f.Label] {
					t.Errorf("%v: the end of %s is nowhere:\n%s", size, f.Label, r.View())
				}
			}
			r.Press("home", "up")
			r.Sees(seen...)
		}
		got := make(chan bool, 1)
		go func() {
			yes, err := p.Confirm(context.Background(), hsm.ConfirmPrompt{Question: "allow it?",
				Detail: "A program wants to", Fields: fields})
			got <- yes && err == nil
		}()
		r.Sees("allow it?")
		readable("No  n     Yes  y")
		r.Press("y")
		if !<-got {
			t.Error("no yes")
		}
		touched := make(chan func())
		ctx, cancel := context.WithCancel(t.Context())
		go func() { touched <- p.Touch(ctx, hsm.TouchPrompt{Token: cardInfo(), Purpose: purpose}) }()
		readable("Waiting for your touch")
		(<-touched)()
		cancel()
		typed := make(chan error, 1)
		go func() {
			pin, err := p.PIN(context.Background(), hsm.PINPrompt{Kind: hsm.PIVPIN, Token: cardInfo(), Retries: 1,
				Purpose: purpose})
			pin.Zero()
			typed <- err
		}()
		readable("PIV PIN", "The last try")
		r.Press(`"123456"`, "enter")
		if err := <-typed; err != nil {
			t.Error(err)
		}
	}
}

// TestTypedConfirm: what cannot be undone is typed out.
func TestTypedConfirm(t *testing.T) {
	r := newWorld(t).open(80, 24)
	atTokens(r)
	got := make(chan bool, 1)
	go func() {
		yes, err := tui.Prompter(r.Model()).Confirm(context.Background(),
			hsm.ConfirmPrompt{Question: "Erase it?", Type: "12345678"})
		got <- yes && err == nil
	}()
	r.Walk("~Type 12345678", "enter", `"1234"`, "enter")
	if tui.OpenDialogs(r.Model()) != 1 {
		t.Fatal("closed by the wrong words")
	}
	r.Press(`"5678"`, "enter")
	if !<-got {
		t.Error("no yes")
	}
}

// TestSecretFieldLeavesNothing: the buffer is zero after use and never copied.
func TestSecretFieldLeavesNothing(t *testing.T) {
	f := widget.NewSecretField()
	for _, k := range tuitest.Keys(`"secret"`) {
		f.Update(k)
	}
	if s := fmt.Sprintf("%v %+v %#v %s", f, f, f, f); strings.Contains(s, "secret") {
		t.Errorf("printed: %s", s)
	}
	s := f.Take()
	if string(s.Bytes()) != "secret" || f.Len() != 0 {
		t.Errorf("took %d bytes, left %d", s.Len(), f.Len())
	}
	s.Zero()
	f.Update(tea.PasteMsg{Content: strings.Repeat("x", 5000)})
	if f.Len() != 0 {
		t.Error("took more than it holds")
	}
}
