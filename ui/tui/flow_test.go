package tui

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/teatest/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

// watched is the root model with a window for the test to look through.
type watched struct {
	*model
	mu     sync.Mutex
	screen string
}

func (w *watched) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	_, cmd := w.model.Update(msg)
	return w, cmd
}

func (w *watched) View() tea.View {
	v := w.model.View()
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

// program is the real program over the fake backend.
type program struct {
	t  *testing.T
	w  *watched
	tm *teatest.TestModel
}

func start(t *testing.T, f *fakeBackend) *program {
	t.Helper()
	flow, _ := flowtest.Env(t)
	o := Options{Backend: f, Flow: flow, Start: ScreenEnroll, Env: []string{"LANG=C.UTF-8"}}
	began := time.Now() // a clock that goes, from the fake's day on
	m := newModelWith(context.Background(), o, timing{clock: func() time.Time { return fakeNow().Add(time.Since(began)) }})
	s := &program{t: t, w: &watched{model: m}}
	s.tm = teatest.NewTestModel(t, s.w, teatest.WithInitialTermSize(100, 30),
		teatest.WithProgramOptions(tea.WithEnvironment([]string{"TERM=xterm-256color", "LANG=C.UTF-8"})))
	t.Cleanup(func() { m.close(tuitest.Patience) })
	return s
}

// sees waits until the screen holds every text.
func (s *program) sees(texts ...string) {
	s.t.Helper()
	deadline := time.Now().Add(tuitest.Patience)
	for _, x := range texts {
		for !strings.Contains(s.w.Screen(), x) {
			if time.Now().After(deadline) {
				s.t.Fatalf("never: screen holds %s; it is\n%s", x, s.w.Screen())
			}
			<-time.After(5 * time.Millisecond)
		}
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
	s.toRun()
	s.sees("PIN of trial")
}

func (s *program) toRun() {
	s.t.Helper()
	s.sees("Which token", "trial")
	s.press("enter")
	s.sees("A new key")
	s.press("enter")
	s.sees("Algorithm")
	s.press("enter")
	s.sees("Which cluster", "trial-admin")
	s.press("enter")
	s.sees("Who is it for")
	s.press(`"jane"`, "tab", `"dev, ops"`, "enter")
	s.sees("This is what will be done", "Lifetime")
	s.press("enter")
}

// final leaves the program and returns its outcome; nothing typed as a PIN may
// be in what it wrote.
func (s *program) final() Outcome {
	s.t.Helper()
	s.press("ctrl+c")
	m, ok := s.tm.FinalModel(s.t, teatest.WithFinalTimeout(tuitest.Patience)).(*watched)
	if !ok {
		s.t.Fatal("no final model")
	}
	out, err := io.ReadAll(s.tm.Output())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, pin := range []string{"648219", "111111"} {
		if strings.Contains(string(out), pin) {
			s.t.Errorf("the PIN %s was shown", pin)
		}
	}
	return m.outcome
}

func TestFlowEnroll(t *testing.T) {
	f := newFake()
	s := start(t, f)
	s.toPIN()
	s.press(`"648219"`, "enter")
	s.sees("Enrolled: authenticated as jane", "kubectl get namespaces")
	o := s.final()
	if o.Result == nil || o.Result.User != "jane" || o.Result.Context != "trial-admin-hsm" {
		t.Fatalf("outcome %+v", o)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := f.got; got.User != "jane" || strings.Join(got.Groups, " ") != "dev ops" || got.Context != "trial-admin" ||
		got.Token.Token != "trial" || got.Generate.Algorithm != hsm.ECDSAP256 {
		t.Errorf("asked for %+v", got)
	}
}

func TestFlowWrongPIN(t *testing.T) {
	f := newFake()
	s := start(t, f)
	s.toPIN()
	s.press(`"111111"`, "enter")
	s.sees("wrong PIN: 2 tries left")
	s.press(`"111111"`, "enter")
	s.sees("One try is left", "Use the last try?")
	s.press("enter") // the focus is on no
	s.sees("Not finished", "error:", "cancelled")
	if f.tries != 1 {
		t.Errorf("%d tries left: the last one was used", f.tries)
	}
	s.press("r")
	s.sees("Use the last try?")
	s.press("y")
	s.sees("The last try: a wrong PIN blocks it")
	s.press(`"648219"`, "enter")
	s.sees("authenticated as jane")
	if o := s.final(); o.Result == nil {
		t.Error("no result")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.asked); n != 3 || f.asked[1].Again == "" {
		t.Errorf("asked %d times", n)
	}
}

func TestFlowDeclinedPIN(t *testing.T) {
	f := newFake()
	s := start(t, f)
	s.toPIN()
	s.press("esc")
	s.sees("Not finished", "cancelled")
	s.press("esc")
	s.sees("This is what will be done")
	if o := s.final(); o.Result != nil || f.tries != 3 {
		t.Errorf("outcome %+v, %d tries", o, f.tries)
	}
}

func TestFlowCancel(t *testing.T) {
	f := newFake()
	f.hang[enrolling.StepApproval] = true
	s := start(t, f)
	s.toPIN()
	s.press(`"648219"`, "enter")
	s.sees("waiting for somebody to approve")
	s.press("esc")
	s.sees("Stop here?")
	s.press("y")
	s.sees("Stopped", "What is done is kept")
	f.mu.Lock()
	if f.cancel != 1 {
		t.Errorf("cancelled %d times", f.cancel)
	}
	f.hang = nil
	f.mu.Unlock()
	s.press("r")
	s.sees("PIN of trial")
	s.press(`"648219"`, "enter")
	s.sees("authenticated as jane")
	if o := s.final(); o.Result == nil || f.runs != 2 {
		t.Errorf("outcome %+v after %d runs", o, f.runs)
	}
}

// TestFlowLeave: leaving the program ends what runs, prompts included.
func TestFlowLeave(t *testing.T) {
	f := newFake()
	s := start(t, f)
	s.toPIN()
	if o := s.final(); o.Result != nil || !o.Interrupted {
		t.Errorf("outcome %+v", o)
	}
	s.w.model.close(tuitest.Patience)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cancel != 1 {
		t.Errorf("the enrollment was cancelled %d times", f.cancel)
	}
}

func TestFlowErrorAndRetry(t *testing.T) {
	f := newFake()
	f.fail[enrolling.StepRequest] = errRefused()
	f.fail[enrolling.StepVerify] = errors.New("the API server is down")
	s := start(t, f)
	s.toPIN()
	s.press(`"648219"`, "enter")
	s.sees("connection refused", "hint: start the cluster", "file the request")
	s.press("r")
	s.sees("PIN of trial")
	s.press(`"648219"`, "enter")
	s.sees("the API server is down", "(done before)")
	s.press("r")
	s.sees("PIN of trial")
	s.press(`"648219"`, "enter")
	s.sees("authenticated as jane")
	if o := s.final(); o.Result == nil || f.runs != 3 {
		t.Errorf("outcome %+v after %d runs", o, f.runs)
	}
}

func TestFlowSendToAdmin(t *testing.T) {
	f := newFake()
	f.fail[enrolling.StepRequest] = &request.SendToAdmin{Err: errors.New("jane may not create requests"), Text: "kubectl create -f request.yaml"}
	s := start(t, f)
	s.toPIN()
	s.press(`"648219"`, "enter")
	s.sees("jane may not create requests", "kubectl create -f request.yaml", "copy for the admin")
	s.press("c")
	s.sees("request copied")
	s.final()
}

func TestFlowResume(t *testing.T) {
	f := newFake()
	f.unfinished = []enrolling.Progress{journal(f)}
	f.done = f.unfinished[0].Done
	s := start(t, f)
	s.sees("Resume staging-hsm", "2 h ago", "Next: wait for approval")
	s.press("enter")
	s.sees("This is what will be done", "staging", "find the token, key on the token, file the request")
	s.press("enter")
	s.sees("PIN of trial")
	s.press(`"648219"`, "enter")
	s.sees("authenticated as jane")
	if o := s.final(); o.Result == nil || o.Result.Name != "staging-hsm" {
		t.Errorf("outcome %+v", o)
	}
}

// TestFlowDraft: what was chosen before anything was done is kept while the
// program runs.
func TestFlowDraft(t *testing.T) {
	s := start(t, newFake())
	s.sees("Which token", "trial")
	s.press("enter")
	s.sees("A new key")
	s.press("enter")
	s.sees("Algorithm")
	s.press("down", "enter")
	s.sees("Which cluster", "trial-admin")
	s.press("esc", "esc", "esc")
	s.sees("Which token")
	s.press("esc")
	s.sees("SLOT")
	s.press("R")
	s.sees("Go on with what you chose")
	s.press("enter")
	s.sees("Which token", "trial")
	s.press("enter", "enter")
	s.sees("● ecdsa-p384")
	s.final()
}

// TestFlowConflict: an enrollment begun with other options is begun anew only
// after a yes, and only once.
func TestFlowConflict(t *testing.T) {
	f := newFake()
	f.reviewErr = &enrolling.ConflictError{Name: "trial-admin-hsm", Option: "user", Recorded: "joe", Asked: "jane"}
	f.fail[enrolling.StepRequest] = errRefused()
	s := start(t, f)
	s.sees("Which token", "trial")
	s.press("enter")
	s.sees("A new key")
	s.press("enter")
	s.sees("Algorithm")
	s.press("enter")
	s.sees("Which cluster", "trial-admin")
	s.press("enter")
	s.sees("Who is it for")
	s.press(`"jane"`, "enter")
	s.sees("was begun with user", "begin anew")
	s.press("a")
	s.sees("Begin anew?")
	s.press("y")
	s.sees("This is what will be done", "Lifetime")
	s.press("enter")
	s.sees("PIN of trial")
	s.press(`"648219"`, "enter")
	s.sees("connection refused")
	if f.mu.Lock(); !f.got.Restart {
		t.Error("not begun anew")
	}
	f.mu.Unlock()
	s.press("r")
	s.sees("PIN of trial")
	if f.mu.Lock(); f.got.Restart {
		t.Error("trying again begins anew once more: a second key would be made")
	}
	f.mu.Unlock()
	s.final()
}

// TestFlowUnverified: a cluster that is not verified is enrolled only by typing
// its host.
func TestFlowUnverified(t *testing.T) {
	f := newFake()
	f.reviewErr = &cluster.UnverifiedError{Context: "trial-admin", Host: "10.0.0.2:6443"}
	s := start(t, f)
	s.sees("Which token", "trial")
	s.press("enter")
	s.sees("A new key")
	s.press("enter")
	s.sees("Algorithm")
	s.press("enter")
	s.sees("Which cluster", "trial-admin")
	s.press("enter")
	s.sees("Who is it for")
	s.press(`"jane"`, "enter")
	s.sees("does not verify its API server", "accepts the risk")
	s.press("A")
	s.sees("Enroll it without verifying it?", "10.0.0.2:6443")
	s.press(`"10.0.0.2:6443"`, "enter")
	s.sees("This is what will be done", "Lifetime")
	s.press("enter")
	s.sees("PIN of trial")
	s.press(`"648219"`, "enter")
	s.sees("authenticated as jane")
	if f.mu.Lock(); f.got.AcceptUnverified != "10.0.0.2:6443" {
		t.Errorf("accepted %q", f.got.AcceptUnverified)
	}
	f.mu.Unlock()
	s.final()
}
