package tui_test

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/tui"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

// scene is a moment worth looking at.
type scene struct {
	name   string
	world  func(*world) // changes to the usual world; may be nil
	wizard bool         // the program starts with the wizard
	plain  bool         // its layout is another's: only the words count
	walk   func(*rig)
}

func scenes() []scene {
	return []scene{
		{name: "home", world: troubled, walk: func(r *rig) { atHome(r); r.Sees("Problems") }},
		{name: "tokens", world: func(w *world) {
			w.Tokens.SetProblems(hsm.Problem{Source: "/usr/lib/opensc-pkcs11.so",
				Err: errors.New("C_Initialize: CKR_GENERAL_ERROR")})
		}, walk: func(r *rig) { atTokens(r); r.Press("down", "down"); r.Sees("9a") }},
		{name: "token", walk: atToken},
		{name: "palette", walk: func(r *rig) { atToken(r); r.Press("ctrl+p", `"key"`); r.Sees("delete key") }},
		{name: "attestation", walk: func(r *rig) {
			atDesk(r)
			r.Walk("v", "~Against Yubico's published roots.", `"../../hsm/attest/testdata/yubikey5.pem"`, "enter",
				"~What ../../hsm/attest/testdata/yubikey5.pem states", "~firmware")
			r.settle()
		}},
		{name: "requests", walk: atRequests},
		{name: "look", walk: toLook},
		{name: "activity", world: busy, walk: atBusy},
		{name: "contexts", world: (*world).ours, walk: func(r *rig) { atOurs(r) }},
		{name: "consent", world: (*world).ours, walk: func(r *rig) {
			atOurs(r)
			r.Press("home")
			r.opens("y")
			r.Sees("No kubeconfig can weaken it")
		}},
		{name: "desk", world: emergency, walk: func(r *rig) { atDesk(r); r.Sees("break-glass: night") }},
		{name: "help", walk: func(r *rig) { atTokens(r); r.Press("?"); r.Sees("Everywhere") }},
		{name: "key", wizard: true, walk: func(r *rig) {
			toToken(r)
			r.Walk("down", "enter", "~Change: u", "s", "~reuse its")
		}},
		{name: "policy", wizard: true, walk: toPolicy},
		{name: "review", wizard: true, walk: toReview},
		{name: "pin", wizard: true, world: func(w *world) { w.misses(w.soft) },
			walk: func(r *rig) {
				toPIN(r)
				r.Walk(`"111111"`, "enter", "~Use the last try", "y", "~The last try", `"1234"`)
			}},
		{name: "running", wizard: true, walk: func(r *rig) {
			toPIN(r)
			r.Type("PIN of trial", pin)
			r.Sees("waiting for")
			r.Time = r.Time.Add(75 * time.Second)
			r.Send(tui.Tick())
		}},
		{name: "result", wizard: true, world: func(w *world) { w.Agent() },
			walk: func(r *rig) { r.enroll(); r.Sees("Enrolled: authenticated as jane") }},

		{plain: true, name: "no-rights", wizard: true, world: func(w *world) { w.Agent(); w.server.Forbid("*") },
			walk: func(r *rig) { r.enroll(); r.Sees("no rights yet") }},
		{plain: true, name: "resume", wizard: true, world: (*world).unfinished, walk: func(r *rig) { r.Sees("Resume staging-hsm") }},
		{plain: true, name: "bad", walk: func(r *rig) {
			atRequests(r)
			r.Walk("enter", "~kubehsm-mallory-7x2kp", "~which bypasses all access rules", "~Fingerprint")
			r.opens("a")
			r.Sees("Because of the warnings")
		}},
	}
}

// enroll goes from the first page of the wizard to the last.
func (r *rig) enroll() {
	r.T.Helper()
	before := r.world.server.Names(flowtest.Requests)
	toPIN(r)
	r.Type("PIN of trial", pin)
	r.Sees("waiting for somebody to approve")
	r.world.issue(before)
}

// issue signs the requests that the wizard has filed.
func (w *world) issue(before []string) {
	for _, name := range w.server.Names(flowtest.Requests) {
		if !slices.Contains(before, name) {
			// certificates that are good now, whatever the real time is
			w.server.IssueFor(name, tuitest.Now().AddDate(-1, 0, 0), tuitest.Now().AddDate(90, 0, 0))
		}
	}
}

// unfinished has an enrollment begun, a while ago.
func (w *world) unfinished() { w.begun("staging-hsm", enrolling.Progress{}) }

// begun records an enrollment that is not finished.
func (w *world) begun(name string, p enrolling.Progress) {
	w.T.Helper()
	p.Options = enrolling.Options{Name: name, Context: cmp.Or(p.Options.Context, "staging"),
		User: cmp.Or(p.Options.User, "jane"), Token: w.soft.Info().URI()}
	p.Done = []enrolling.Step{enrolling.StepToken, enrolling.StepKey, enrolling.StepRequest}
	store := enrolling.NewStore(w.Env)
	err := errors.Join(w.Env.Dirs.Prepare(), os.MkdirAll(w.Env.ProgressDir(), 0o700), store.Save(&p))
	b, readErr := os.ReadFile(store.Path(name))
	now, textErr := p.Updated.MarshalText()
	then, thenErr := tuitest.Now().Add(-150 * time.Minute).MarshalText()
	must.OK(w.T, errors.Join(err, readErr, textErr, thenErr))
	must.OK(w.T, os.WriteFile(store.Path(name), []byte(strings.Replace(string(b), string(now), string(then), 1)),
		0o600))
}

// troubled has several keys enrolled, one of which is to be renewed and one of which has ended,
// another enrollment begun, questions open elsewhere, and an agent that cannot write its log.
func troubled(w *world) {
	for name, days := range map[string]int{"prod-hsm": 80, "stage-hsm": 5, "lab-hsm": 400, "old-hsm": -3} {
		key := w.Generate(w.soft, hsm.GenerateOptions{Label: name})
		cert := w.CertifyFor(w.soft, key, tuitest.Now().AddDate(0, 0, -90), tuitest.Now().AddDate(0, 0, days), "jane", "dev")
		w.Enroll(name, key, cert)
	}
	w.current("prod-hsm")
	w.unfinished()
	card := w.card.Info()
	w.Told(message.Status{AuditError: "the audit log cannot be written: no space left on device", Responders: 2,
		Consents: []message.ConsentStatus{{Enrollment: "prod-hsm", Request: `delete pods "web-1" in "shop"`}},
		Tokens: []message.TokenStatus{{URI: w.soft.Info().URI()},
			{URI: card.URI(), Asked: []ask.Wait{{For: ask.ForPIN, Kind: string(hsm.PIVPIN), Token: card.Name(),
				Client: process.ID{PID: 5121}}}}}})
}

// current makes a context the current one.
func (w *world) current(name string) {
	w.T.Helper()
	change, err := contexts.New(w.Env).Use(w.T.Context(), name)
	if err == nil {
		err = change.Apply(w.T.Context())
	}
	must.OK(w.T, err)
}

func atHome(r *rig) {
	r.T.Helper()
	atTokens(r)
	r.Walk("0", "~User", "~prod-hsm", "~ends in 80 d")
}

// busy adds an agent that is in use, and an audit log.
func busy(w *world) {
	card := w.card.Info().URI()
	at := func(d time.Duration) time.Time { return tuitest.Now().Add(-d) }
	w.Told(message.Status{
		Version: "1.0.0", PID: 4711, Started: at(2 * time.Hour), Signatures: 14, Bridge: "127.0.0.1:40123",
		Tokens: []message.TokenStatus{{URI: card, Unlocked: true, Since: at(time.Hour), Until: at(-25 * time.Minute)}},
		Upstreams: []upstream.Status{{Enrollment: "prod-hsm", Server: "prod.example.com:6443", Requests: 311,
			Signatures: 14}},
		Sessions: []bridge.SessionStatus{{Enrollment: "prod-hsm", Client: process.ID{PID: 5120}, Requests: 12, Open: 1}},
		Consents: []message.ConsentStatus{{Enrollment: "prod-hsm", Client: process.ID{PID: 5121},
			Request: `delete pods "web-1" in "shop"`, Since: at(4 * time.Second)}},
	})
	kubectl := &audit.Process{PID: 5120, Command: "kubectl"}
	for _, r := range []audit.Record{
		{Time: at(2 * time.Hour), Event: audit.AgentStart, Version: "1.0.0"},
		{Time: at(time.Hour), Event: audit.Unlock, Outcome: audit.Refused, Error: "pin-incorrect", Token: card, Client: kubectl},
		{Time: at(59 * time.Minute), Event: audit.Unlock, Outcome: audit.Granted, Token: card, Client: kubectl},
		{Time: at(5 * time.Minute), Event: audit.Signature, Outcome: audit.Granted, Reason: "sign-in", Enrollment: "prod-hsm", Key: "3b1f0c6de1c54cf5b9be", Client: kubectl},
		{Time: at(time.Minute), Event: audit.Denial, Code: 401, Reason: "expired", Enrollment: "prod-hsm", Count: 3},
	} {
		flowtest.Record(w.T, w.Env.Dirs, r)
	}
}

func atBusy(r *rig) {
	r.T.Helper()
	atTokens(r)
	r.Press("4")
	r.Sees("1 token unlocked", "14 signatures", "pin-incorrect", "denial", `waits for consent: delete pods "web-1"`)
}

// emergency adds an enrollment for emergencies.
func emergency(w *world) {
	key := w.Generate(w.soft, hsm.GenerateOptions{Label: "night"})
	w.Enroll("night", key, w.Certify(w.soft, key, "break-glass", request.BreakGlassGroup))
}

// TestGolden compares whole frames. go test -update writes them again.
func TestGolden(t *testing.T) {
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t)
			if s.world != nil {
				s.world(w)
			}
			open := w.open
			if s.wizard {
				open = w.openWizard
			}
			r := open(120, 40)
			s.walk(r)
			switch {
			case s.plain:
			case s.name == "home":
				r.GoldenColours(t)
			default:
				r.Golden(t)
			}
		})
	}
}
