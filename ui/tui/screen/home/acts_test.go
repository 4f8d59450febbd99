package home_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/tui"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

// enrolled is a world with enrollments that end after so many days each, the last of which is
// the current one.
func enrolled(t *testing.T, days ...int) (*screentest.World, *hsmtest.FakeToken) {
	t.Helper()
	w := screentest.New(t)
	tok := w.Tokens.Add(hsmtest.FakeOptions{Label: "blue", Serial: "8fc1", Seed: "home"})
	for i, d := range days {
		name := fmt.Sprintf("key-%02d", i)
		key := w.Generate(tok, hsm.GenerateOptions{Label: name})
		w.Enroll(name, key, w.CertifyFor(tok, key, tuitest.Now().AddDate(0, 0, -90), tuitest.Now().AddDate(0, 0, d), "jane"))
	}
	change, err := contexts.New(w.Env).Use(t.Context(), fmt.Sprintf("key-%02d", len(days)-1))
	if err == nil {
		err = change.Apply(t.Context())
	}
	must.OK(t, err)
	return w, tok
}

func open(w *screentest.World, width, height int) *screentest.Rig {
	return w.Start(width, height, tui.Options{})
}

// TestNext: the next step is one key away, whatever it is.
func TestNext(t *testing.T) {
	w := screentest.New(t)
	r := open(w, 80, 24)
	r.Walk("~n enroll a key", "~trial-admin, not kubehsm's", "n", "~Home › Enroll")

	w, _ = enrolled(t, 100, 5)
	r = open(w, 80, 24)
	r.Walk("~n renew key-01", "~kubehsm certificate renew key-01", "~! ends in 5 d: renew it", "~ends in 100 d", "n",
		"~Renew key-01")

	w, _ = enrolled(t, -1)
	r = open(w, 80, 24)
	r.Sees("n enroll key-00 again", "! expired")

	w, _ = enrolled(t, 100)
	w.Told(message.Status{AuditError: "no space left on device"})
	r = open(w, 80, 24)
	r.Walk("~Problems", "~! no space left on device", "~n see what is wrong", "n", "~WHAT")
}

// TestKeys: a certificate leads to its context, and the token is locked and unlocked from here.
func TestKeys(t *testing.T) {
	w, tok := enrolled(t, 50, 100)
	r := open(w, 100, 30)
	r.Walk("~key-01 ○ locked", "~U unlock", "down", "enter", "~▌ ● key-01", "0", "L", "~nothing is unlocked here",
		"x", "~kubehsm status", "esc")

	uri := tok.Info().URI()
	w.Told(
		message.Status{Tokens: []message.TokenStatus{{URI: uri, Unlocked: true, Until: tuitest.Now().Add(10 * time.Minute)}}},
	)
	r.Walk("r", "~key-01 ● unlocked 10 min", "~unlocked, 10 min more if not used", "~L lock", "U",
		"~unlock: it is unlocked")
}

// TestMany: of many certificates the one that ends first is in view on the smallest terminal, all
// can be gone to, and how many more there are is said.
func TestMany(t *testing.T) {
	var days []int
	for i := range 24 {
		days = append(days, 100+i)
	}
	w, _ := enrolled(t, days...)
	r := open(w, 60, 15)
	r.Sees("key-00", "more certificates", "Nothing to do", "key-23")
	for _, size := range [][2]int{{60, 15}, {80, 24}, {100, 30}, {200, 50}} {
		r.Send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		r.Press("home")
		for range 24 {
			screentest.CheckFrame(t, r.Frame(), size[0], size[1])
			r.Press("down")
		}
		if !strings.Contains(r.View(), "▌ key-23") {
			t.Errorf("%v: the last is not in view:\n%s", size, r.View())
		}
	}
}

// TestUnreadable: what cannot be read is said, and the rest is shown.
func TestUnreadable(t *testing.T) {
	w, _ := enrolled(t, 100)
	en, err := w.Env.Enrollments().Load("key-00")
	must.OK(t, err)
	en.Name, en.KeyHash = "broken", strings.Repeat("0", 64)
	must.OK(t, w.Env.Enrollments().Save(en))
	r := open(w, 100, 30)
	r.Sees("Problems", "enrollment broken has no certificate yet", "! cannot be read", "key-00", "ends in 100 d")
}
