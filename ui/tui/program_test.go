package tui_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/teatest/v2"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/tui"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

// watched is the root model with a window for the test to look through.
type watched struct {
	tea.Model
	mu     sync.Mutex
	screen string
}

func (w *watched) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	_, cmd := w.Model.Update(msg)
	return w, cmd
}

func (w *watched) View() tea.View {
	v := w.Model.View()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.screen = ansi.Strip(v.Content)
	return v
}

func (w *watched) Screen() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.screen
}

// program is the real program, with bubbletea's runtime, in a world.
type program struct {
	t     *testing.T
	w     *watched
	tm    *teatest.TestModel
	world *world
}

func start(t *testing.T) *program {
	t.Helper()
	w := newWorld(t)
	began := time.Now() // the clock runs, from the tests' day on
	o := tui.Options{Env: w.Env, Start: tui.ScreenEnroll, Environ: []string{"LANG=C.UTF-8"}}
	m, end := tui.Model(context.Background(), o, func() time.Time { return tuitest.Now().Add(time.Since(began)) })
	s := &program{t: t, w: &watched{Model: m}, world: w}
	s.tm = teatest.NewTestModel(t, s.w, teatest.WithInitialTermSize(100, 30),
		teatest.WithProgramOptions(tea.WithEnvironment([]string{"TERM=xterm-256color", "LANG=C.UTF-8"})))
	t.Cleanup(func() { end(tuitest.Patience) })
	return s
}

// until waits for what the screen shows, or for what happens elsewhere.
func (s *program) until(what string, cond func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(tuitest.Patience); !cond(); {
		if time.Now().After(deadline) {
			s.t.Fatalf("never: %s; the screen is\n%s", what, s.w.Screen())
		}
		<-time.After(5 * time.Millisecond)
	}
}

// sees waits until the screen holds every text.
func (s *program) sees(texts ...string) {
	s.t.Helper()
	for _, x := range texts {
		s.until("screen holds "+x, func() bool { return strings.Contains(s.w.Screen(), x) })
	}
}

func (s *program) press(names ...string) {
	for _, n := range names {
		for _, k := range tuitest.Keys(n) {
			s.tm.Send(k)
		}
	}
}

// toPIN walks to the first PIN prompt.
func (s *program) toPIN() {
	s.t.Helper()
	s.sees("Which token", "trial")
	s.press("enter")
	s.sees("Change: u user")
	s.press("u")
	s.sees("Who is it for")
	s.press(`"jane"`, "tab", `"dev, ops"`, "enter")
	s.sees("Who      jane, in dev, ops")
	s.press("enter")
	s.sees("PIN of trial")
}

// final leaves the program and returns its outcome; nothing typed as a PIN may
// be in what it wrote.
func (s *program) final() tui.Outcome {
	s.t.Helper()
	s.press("ctrl+c")
	m, ok := s.tm.FinalModel(s.t, teatest.WithFinalTimeout(tuitest.Patience)).(*watched)
	if !ok {
		s.t.Fatal("no final model")
	}
	out, err := io.ReadAll(s.tm.Output())
	must.OK(s.t, err)
	for _, typed := range []string{pin, "111111"} {
		if strings.Contains(string(out), typed) {
			s.t.Errorf("the PIN %s was shown", typed)
		}
	}
	return tui.OutcomeOf(m.Model)
}

// TestFlowEnroll goes all the way in the real program, with a wrong PIN on it.
func TestFlowEnroll(t *testing.T) {
	s := start(t)
	s.world.Agent()
	before := s.world.server.Names(flowtest.Requests)
	s.toPIN()
	s.press(`"111111"`, "enter")
	s.sees("wrong PIN: 2 tries left")
	s.press(`"`+pin+`"`, "enter")
	s.sees("waiting for somebody to approve")
	s.world.issue(before)
	s.sees("Enrolled: authenticated as jane", "get namespaces")
	o := s.final()
	if o.Result == nil || o.Result.User != "jane" || o.Result.Context != "trial-admin-hsm" ||
		strings.Join(o.Result.Groups, " ") != "dev ops system:authenticated" {
		t.Fatalf("outcome %+v", o)
	}
}

// TestFlowLeave: leaving the program ends what runs, prompts included.
func TestFlowLeave(t *testing.T) {
	s := start(t)
	s.toPIN()
	if o := s.final(); o.Result != nil || !o.Interrupted {
		t.Errorf("outcome %+v", o)
	}
	if n := len(s.world.Slots(s.world.soft)); n != 0 || s.world.soft.Tries() != 3 {
		t.Errorf("%d keys were made, %d tries are left", n, s.world.soft.Tries())
	}
}
