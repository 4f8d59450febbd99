package host

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/consents"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/pinsource"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/test/poll"
)

// asker is a person: says what answers have been given, and is told the questions.
type asker struct {
	mu        sync.Mutex
	questions []hsm.ConfirmPrompt
	shared    []bool // whether the terminal was shared
	answer    func(context.Context, ask.Question) (bool, error)
	reaching  bool // knows whether a touch line would be seen: reach
	reach     error
	touches   int
	pin       string // answers prompts for a PIN
	down      func() // called when a touch line is to be taken down
}

func (p *asker) ask(ctx context.Context, q ask.Question) (ask.Answer, error) {
	p.mu.Lock()
	switch {
	case q.Confirm != nil:
		p.questions, p.shared = append(p.questions, *q.Confirm), append(p.shared, q.Shared())
		p.mu.Unlock()
		yes, err := p.answer(ctx, q)
		return ask.Answer{Yes: yes}, err
	case q.Touch != nil:
		p.touches++
	}
	defer p.mu.Unlock()
	switch {
	case q.PIN != nil && p.pin == "":
		return ask.Answer{}, hsm.ErrNoTerminal
	case q.PIN != nil:
		return ask.Answer{PIN: hsm.NewSecret([]byte(p.pin))}, nil
	case q.Reach && !p.reaching:
		return ask.Answer{}, hsm.ErrUnsupported
	case q.Reach:
		return ask.Answer{}, p.reach
	}
	return ask.Answer{Done: p.down}, nil
}

func (p *asker) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.questions)
}

func always(yes bool, err error) func(context.Context, ask.Question) (bool, error) {
	return func(context.Context, ask.Question) (bool, error) { return yes, err }
}

// policy changes the enrollment's policy.
func (r *rig) policy(p consent.Policy) {
	r.t.Helper()
	r.e.Policy, r.e.Rules = p.Mode, p.Rules
	r.e = r.save(r.e)
}

// running starts a process that lives as long as the test, or until end. It has no
// terminal.
func running(t *testing.T) (id process.ID, end func()) {
	t.Helper()
	c := exec.Command("sleep", "600")
	ownSession(c)
	check(t, c.Start())
	end = sync.OnceFunc(func() { _ = c.Process.Kill(); _ = c.Wait() })
	t.Cleanup(end)
	return process.Of(c.Process.Pid), end
}

// attended has p offered for the client, or as a responder for the zero client.
func (r *rig) attended(client process.ID, p *asker) (leave func()) {
	r.t.Helper()
	return r.attendedBy(client, p.ask)
}

func (r *rig) attendedBy(client process.ID, p ask.Func) (leave func()) {
	r.t.Helper()
	c := r.dial()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		if client.Known() {
			done <- c.Attend(ctx, client, p, func() { close(ready) })
		} else {
			done <- c.Respond(ctx, p, func() { close(ready) })
		}
	}()
	select {
	case <-ready:
	case err := <-done:
		r.t.Fatal(err)
	}
	leave = sync.OnceFunc(func() {
		cancel()
		check(r.t, <-done)
	})
	r.t.Cleanup(leave)
	return leave
}

func (r *rig) sessionOf(client process.ID) (message.Session, *http.Client) {
	r.t.Helper()
	s, err := r.prepare(r.dial(), client, hsmtest.Typing(r.t, pin))
	check(r.t, err)
	return s, r.http(s)
}

// send sends a request and returns the status code and the body.
func (r *rig) send(ctx context.Context, c *http.Client, method, path string) (int, string) {
	r.t.Helper()
	code, body, err := r.trySend(ctx, c, method, path)
	check(r.t, err)
	return code, body
}

func (r *rig) trySend(ctx context.Context, c *http.Client, method, path string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.ep.URL("prod")+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b := make([]byte, 4096)
	n, _ := resp.Body.Read(b)
	return resp.StatusCode, string(b[:n]), nil
}

const (
	served = http.StatusTeapot // the stand-in's answer
	pods   = "/api/v1/namespaces/web/pods"
)

// consenting is a rig with a program that has a session, and with who is asked about it. For a
// key that wants a touch, that is made for signing in.
func consenting(t *testing.T, o rigOptions, mode consent.Mode, p *asker) (*rig, process.ID, *http.Client) {
	t.Helper()
	r := newRig(t, o)
	r.policy(consent.Policy{Mode: mode})
	client, _ := running(t)
	if o.token.TouchPolicy == hsm.TouchAlways {
		r.token.Touch()
	}
	_, c := r.sessionOf(client)
	if p != nil {
		r.attended(client, p)
	}
	return r, client, c
}

// TestOneYesForOneCommand: reading is silent, a command's changes are one
// question, another kind of request is another one, and so is another process.
func TestOneYesForOneCommand(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.policy(consent.Policy{Mode: consent.Writes})
	client, _ := running(t)
	s, c := r.sessionOf(client)
	if !s.Attend {
		t.Fatal("nobody is wanted to attend")
	}
	ctx := context.Background()
	p := &asker{answer: always(true, nil)}
	r.attended(client, p)
	if again, err := r.prepare(r.dial(), client, nil); err != nil || again.Attend {
		t.Fatalf("a second attendant is wanted: %v", err)
	}
	if code, _ := r.send(ctx, c, "GET", pods); code != served || p.asked() != 0 {
		t.Fatalf("%d, %d questions", code, p.asked())
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			code, body, err := r.trySend(ctx, c, []string{"POST", "PATCH", "PUT"}[i%3], pods+"/p")
			if err != nil || code != served {
				t.Errorf("%d %s %v", code, body, err)
			}
		})
	}
	wg.Wait()
	if p.asked() != 1 {
		t.Fatalf("%d questions", p.asked())
	}
	if q := p.questions[0]; !strings.Contains(q.Detail, "on prod (127.0.0.1:") ||
		!strings.Contains(q.Detail, `pods "p" in "web"`) || !strings.Contains(q.Detail, "sleep (process ") || q.DefaultYes {
		t.Errorf("%+v", q)
	}
	for i, want := range []string{"DELETE " + pods + "/p", "GET " + pods + "/p/exec"} {
		method, path, _ := strings.Cut(want, " ")
		for range 2 {
			if code, _ := r.send(ctx, c, method, path); code != served || p.asked() != 2+i {
				t.Fatalf("%s: %d, %d questions", want, code, p.asked())
			}
		}
	}
	other, _ := running(t)
	_, c2 := r.sessionOf(other)
	p2 := &asker{answer: always(false, nil)}
	r.attended(other, p2)
	for range 2 { // a no holds for a moment too
		if code, body := r.send(ctx, c2, "POST", pods); code != http.StatusForbidden ||
			!strings.Contains(body, "kubehsm: no consent to create pods in \\\"web\\\": it was refused") ||
			!strings.Contains(body, `"reason":"Forbidden"`) {
			t.Fatalf("%d %s", code, body)
		}
	}
	if p.asked() != 3 || p2.asked() != 1 {
		t.Fatalf("%d and %d questions", p.asked(), p2.asked())
	}
	all := r.recordsOf(audit.Consent)
	if len(all) != 4 || all[0].Outcome != audit.Granted || all[0].Reason != "answer" || all[3].Outcome != audit.Refused ||
		all[3].Request != `create pods in "web"` || all[3].Client.PID != other.PID {
		t.Fatalf("%+v", all)
	}
	if st, err := consent.Read(all[1].Statement); err != nil || st.Request.String() != `delete pods "p" in "web"` ||
		st.Server != r.api.URL || len(all[1].Signature) == 0 {
		t.Errorf("%+v %v", st, err)
	}
}

// TestNobodyToAsk: an open UI is asked where the client has no attendant or that
// one cannot ask; without any the answer says what to do.
func TestNobodyToAsk(t *testing.T) {
	r, _, c := consenting(t, rigOptions{}, consent.Writes, &asker{answer: always(false, hsm.ErrNoTerminal)})
	ctx := context.Background()
	if code, body := r.send(ctx, c, "POST", pods); code != http.StatusForbidden ||
		!strings.Contains(body, "there is nobody to ask") || !strings.Contains(body, "keep `kubehsm` open") {
		t.Fatalf("%d %s", code, body)
	}
	leave := r.attended(process.ID{}, &asker{answer: always(false, hsm.ErrNoTerminal)})
	ui := &asker{answer: always(true, nil)}
	r.attended(process.ID{}, ui)
	if n := r.status().Responders; n != 2 {
		t.Errorf("%d fronts", n)
	}
	leave()
	if code, body := r.send(ctx, c, "POST", pods); code != served || ui.asked() != 1 {
		t.Fatalf("%d %s", code, body)
	}
	if all := r.recordsOf(audit.Consent); len(all) != 2 || all[0].Reason != "nobody" || all[0].Outcome != audit.Refused {
		t.Errorf("%+v", all)
	}
}

// TestAnswerGoesOnRecord: a yes that cannot be recorded, as on a full disk, is none; the next one counts.
func TestAnswerGoesOnRecord(t *testing.T) {
	p := &asker{answer: always(true, nil)}
	r, _, c := consenting(t, rigOptions{}, consent.Writes, p)
	path := audit.Path(r.dirs)
	check(t, r.agent.records.To.Close())
	check(t, os.Rename(path, path+".kept"))
	check(t, os.Mkdir(path, 0o700))
	if code, body := r.send(t.Context(), c, "POST", pods); code != http.StatusForbidden ||
		!strings.Contains(body, "the answer does not count: audit log: ") || !strings.Contains(body, "make room on the disk") {
		t.Errorf("%d %s", code, body)
	}
	check(t, os.Remove(path))
	check(t, os.Rename(path+".kept", path))
	if code, body := r.send(t.Context(), c, "POST", pods); code != served || p.asked() != 2 {
		t.Errorf("%d %s, %d questions", code, body, p.asked())
	}
	if all := r.recordsOf(audit.Consent); len(all) != 1 || all[0].Outcome != audit.Granted {
		t.Errorf("%+v", all)
	}
}

// TestAttendantIsAwaited: the client's first request may be faster than its attendant.
func TestAttendantIsAwaited(t *testing.T) {
	r, client, c := consenting(t, rigOptions{}, consent.Always, nil)
	p := &asker{answer: always(true, nil)}
	code := make(chan int, 1)
	go func() {
		n, _, _ := r.trySend(context.Background(), c, "GET", pods)
		code <- n
	}()
	poll.Until(t, "the question is open", func() bool { return len(r.status().Consents) == 1 })
	if q := r.status().Consents[0]; q.Request != `list pods in "web"` || q.Client != client || q.Enrollment != "prod" {
		t.Errorf("%+v", q)
	}
	r.attended(client, p)
	if n := <-code; n != served || p.asked() != 1 || len(r.status().Consents) != 0 {
		t.Fatalf("%d, %d questions", n, p.asked())
	}
}

// TestQuestionIsTakenDown when the client gives up, ends or the agent is locked,
// and leaves the person free for the next one.
func TestQuestionIsTakenDown(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.policy(consent.Policy{Mode: consent.Writes})
	down := make(chan error, 16)
	ui := &asker{answer: func(ctx context.Context, _ ask.Question) (bool, error) {
		<-ctx.Done()
		down <- ctx.Err()
		return false, ctx.Err()
	}}
	r.attended(process.ID{}, ui)
	for i, give := range []func(cancel, end func()){
		func(cancel, _ func()) { cancel() },
		func(_, end func()) { end() },
		func(_, _ func()) { check(t, only(r.dial().Lock(context.Background()))) },
	} {
		client, end := running(t)
		_, c := r.sessionOf(client)
		r.unattended()
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan string, 1)
		go func() {
			code, body, err := r.trySend(ctx, c, "POST", pods)
			done <- strings.Join([]string{http.StatusText(code), body, errText(err)}, " ")
		}()
		poll.Until(t, "the question is asked", func() bool { return ui.asked() == i+1 })
		give(cancel, end)
		<-down
		if got := <-done; strings.Contains(got, "teapot") {
			t.Errorf("%d: %s", i, got)
		}
		cancel()
		poll.Until(t, "no question is open", func() bool { return len(r.status().Consents) == 0 })
	}
	for range 12 { // withdrawn ones fill nothing up
		client, _ := running(t)
		_, c := r.sessionOf(client)
		r.unattended()
		ctx, cancel := context.WithCancel(context.Background())
		before := ui.asked()
		go r.trySend(ctx, c, "POST", pods) // the test cancels the request
		poll.Until(t, "asked", func() bool { return ui.asked() == before+1 })
		cancel()
		<-down
	}
	if r.status().Responders != 1 {
		t.Error("the open UI was sent away")
	}
}

func errText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// TestTouchSigns: a key that needs a touch for each use signs what was agreed to.
func TestTouchSigns(t *testing.T) {
	p := &asker{answer: always(true, nil), reaching: true}
	r, _, c := consenting(t, rigOptions{token: hsmtest.FakeOptions{TouchPolicy: hsm.TouchAlways}}, consent.Writes, p)
	ctx := context.Background()
	signed := r.token.Signatures()
	done := make(chan int, 1)
	go func() {
		code, _, _ := r.trySend(ctx, c, "DELETE", pods+"/p")
		done <- code
	}()
	poll.Until(t, "a touch is shown", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.touches == 1 })
	r.token.Touch()
	if code := <-done; code != served || p.asked() != 0 || r.token.Signatures() != signed+1 {
		t.Fatalf("%d, %d questions, %d signatures", code, p.asked(), r.token.Signatures()-signed)
	}
	all := r.recordsOf(audit.Consent)
	if len(all) != 1 || all[0].Reason != "touch" || all[0].Outcome != audit.Granted {
		t.Fatalf("%+v", all)
	}
	check(t, consent.Verify(r.slot.Key.Public, all[0].Statement, all[0].Signature))
	if err := consent.Verify(r.slot.Key.Public, strings.Replace(all[0].Statement, `"name":"p"`, `"name":"q"`, 1),
		all[0].Signature); !errors.Is(err, consent.ErrSignature) {
		t.Error("another request verifies")
	}
	// Where the line would not be seen the question comes first, then the touch.
	p.reach = hsm.ErrUnsupported
	r.token.Touch()
	if code, body := r.send(ctx, c, "POST", pods); code != served || p.asked() != 1 || r.token.Signatures() != signed+2 {
		t.Fatalf("%d %s, %d questions", code, body, p.asked())
	}
	p.reach = hsm.ErrNoTerminal
	if code, body := r.send(ctx, c, "GET", pods+"/p/exec"); code != http.StatusForbidden || r.token.Signatures() != signed+
		2 {
		t.Fatalf("%d %s", code, body)
	}
}

// TestTouchLineGoesFirst: kubectl writes to the terminal as soon as its request is
// answered; until then the touch line must be gone from there, whatever stands between who
// asks and who shows it, such as the PIN sources of config.yaml.
func TestTouchLineGoesFirst(t *testing.T) {
	for name, sourced := range map[string]bool{"plain": false, "a PIN source, and the connection is opened again": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{idle: true, token: hsmtest.FakeOptions{TouchPolicy: hsm.TouchAlways}})
			var o Options
			if sourced {
				file := filepath.Join(t.TempDir(), "pin")
				check(t, os.WriteFile(file, []byte(pin+"\n"), 0o600))
				var err error
				o.PINSources, err = pinsource.Entries(settings.Config{PINSources: []settings.PINSource{{
					Token: r.token.Info().URI().String(), Source: "file:" + file}}})
				check(t, err)
			} else {
				r.policy(consent.Policy{Mode: consent.Writes})
			}
			r.serve(o)
			client, _ := running(t)
			r.token.Touch() // for signing in
			_, c := r.sessionOf(client)
			arrived := func() bool { return slices.Contains(r.api.Arrivals(), "DELETE "+pods+"/p") }
			slow := make(chan struct{})
			var early atomic.Bool
			r.attended(client, &asker{answer: always(true, nil), reaching: true, down: sync.OnceFunc(func() {
				defer close(slow)
				// A terminal takes its time; what goes wrong is seen in it.
				early.Store(poll.Within(100*time.Millisecond, arrived))
			})})
			if sourced {
				r.agent.targets.current("prod").up.Forget()
				r.agent.targets.current("prod").up.Reset()
			}
			r.token.Touch()
			if code, body := r.send(t.Context(), c, "DELETE", pods+"/p"); code != served || !arrived() {
				t.Fatalf("%d %s", code, body)
			}
			<-slow
			if early.Load() {
				t.Error("the request was sent before the line was gone")
			}
		})
	}
}

// TestPolicyIsFollowed by clients that run on: a stricter one holds without their
// asking again.
func TestPolicyIsFollowed(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	r.serve(Options{sweepEvery: 20 * time.Millisecond})
	client, _ := running(t)
	_, c := r.sessionOf(client)
	ctx := context.Background()
	if code, _ := r.send(ctx, c, "POST", pods); code != served {
		t.Fatal(code)
	}
	r.policy(consent.Policy{Mode: consent.Writes})
	poll.Until(t, "the session of before is over", func() bool {
		code, _ := r.send(ctx, c, "POST", pods)
		return code == http.StatusUnauthorized
	})
	_, c = r.sessionOf(client)
	r.attended(client, &asker{answer: always(false, nil)})
	if code, _ := r.send(ctx, c, "POST", pods); code != http.StatusForbidden {
		t.Fatal(code)
	}
}

// TestOddIsRefused: what can be read in two ways is not even asked about, unless
// the policy asks for nothing.
func TestOddIsRefused(t *testing.T) {
	r := newRig(t, rigOptions{})
	client, _ := running(t)
	_, c := r.sessionOf(client)
	ctx := context.Background()
	if code, _ := r.send(ctx, c, "GET", "/api/v1/namespaces/a%2fpods/b"); code != served {
		t.Fatal(code)
	}
	r.policy(consent.Policy{Mode: consent.Writes})
	_, c = r.sessionOf(client)
	p := &asker{answer: always(true, nil)}
	r.attended(client, p)
	for _, path := range []string{"/api/v1/namespaces/a%2fpods/b", "//api/v1/pods",
		"/api/v1/namespaces/a/pods/b/%65xec/.."} {
		if code, body := r.send(ctx, c, "GET", path); code != http.StatusForbidden ||
			!strings.Contains(body, "cannot be understood") || p.asked() != 0 {
			t.Fatalf("%s: %d %s", path, code, body)
		}
	}
}

// TestHeldRequestsAreBounded: a program that goes on asking while nobody answers
// is refused, and keeps no other from being asked about.
func TestHeldRequestsAreBounded(t *testing.T) {
	r, greedy, c := consenting(t, rigOptions{}, consent.Writes,
		&asker{answer: func(ctx context.Context, _ ask.Question) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		}})
	const more = 8
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var refused atomic.Int32
	for range consents.MaxHeld + more {
		wg.Go(func() {
			code, body, err := r.trySend(ctx, c, "POST", pods)
			switch {
			case err != nil: // given up
			case code == http.StatusForbidden && strings.Contains(body, "too many requests wait"):
				refused.Add(1)
			default:
				t.Errorf("%d %s", code, body)
			}
		})
	}
	poll.Until(t, "what is too much was refused", func() bool { return refused.Load() == more })
	other, _ := running(t)
	_, c2 := r.sessionOf(other)
	r.attended(other, &asker{answer: always(true, nil)})
	if code, body := r.send(t.Context(), c2, "POST", pods); code != served {
		t.Errorf("%d %s", code, body)
	}
	cancel()
	wg.Wait()
	r.mustAgent(func(a *agent) {
		poll.Until(t, "nothing is held", func() bool {
			return !a.answers.Waits(greedy) && !a.answers.Waits(other)
		})
	})
	if refused.Load() != more {
		t.Errorf("%d were refused", refused.Load())
	}
}
