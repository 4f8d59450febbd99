package activity_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

const fingerprint = "3b1f0c6de1c54cf5b9be9a3e6c1fb0a70d4a9e1da8a40f2f51f3c79a6d0c2e11"

// write adds records to the log of a world, as an agent does.
func write(t *testing.T, w *screentest.World, records ...audit.Record) {
	t.Helper()
	must.OK(t, w.Env.Dirs.Prepare())
	for _, r := range records {
		flowtest.Record(t, w.Env.Dirs, r)
	}
}

func ago(d time.Duration) time.Time { return tuitest.Now().Add(-d) }

// open shows the screen over a log of a signature and of a request that was turned
// away. No agent runs.
func open(t *testing.T) *screentest.Rig {
	t.Helper()
	w := screentest.New(t)
	write(t, w,
		audit.Record{Time: ago(2 * time.Hour), Event: audit.Signature, Outcome: audit.Granted, Reason: "sign-in",
			Enrollment: "prod-hsm", Key: fingerprint},
		audit.Record{Time: ago(time.Hour), Event: audit.Denial, Code: 403, Enrollment: "prod-hsm", Request: "delete pods"})
	r := w.Open("4")
	r.Sees("signature", "sign-in", "denial", "delete pods")
	return r
}

// busy shows the screen of an agent that has unlocked the token of an enrollment.
func busy(t *testing.T, open func(*screentest.World) *screentest.Rig) *screentest.Rig {
	t.Helper()
	w := screentest.New(t)
	card := w.Cards.Add(hsmtest.FakeOptions{Serial: "12345678"})
	key := w.Generate(card, hsm.GenerateOptions{Algorithm: hsm.ECDSAP256, Slot: "9a"})
	w.Enroll("prod-hsm", key, w.Certify(card, key, "jane"))
	w.Agent()
	must.OK(t, (session.Agent{Env: w.Env}).Unlock(t.Context(), "prod-hsm", hsmtest.Typing(t, card.PIN())))
	r := open(w)
	r.Sees("1 token unlocked", "agent-start", "unlock", "granted", "token 12345678")
	return r
}

// locked wants the token to be locked now, and that to be on record.
func locked(r *screentest.Rig) {
	r.T.Helper()
	r.Sees("locked: the next command asks for the PIN", "all locked", "asked")
	s, err := session.Agent{Env: r.World.Env}.AgentStatus(r.T.Context())
	if err != nil || slices.ContainsFunc(s.Tokens, func(t message.TokenStatus) bool { return t.Unlocked }) {
		r.T.Errorf("%+v, %v", s.Tokens, err)
	}
}

// TestAgent: what is open comes and goes by itself; the agent is locked, and ended.
func TestAgent(t *testing.T) {
	r := busy(t, func(w *screentest.World) *screentest.Rig { return w.Open("4") })
	r.Walk("tab", "~token 12345678", "~unlocked, ")
	// another program locks the agent
	must.OK(t, (session.Agent{Env: r.World.Env}).LockAgent(t.Context(), nil))
	r.Time = r.Time.Add(2 * time.Second)
	r.Loses("unlocked, ")
	r.Press("tab", "L")
	locked(r)
	r.Walk("S", "~the agent has ended", "~The agent is not running")
	if _, err := (session.Agent{Env: r.World.Env}).AgentStatus(t.Context()); !errors.Is(err, client.ErrNotRunning) {
		t.Errorf("the agent runs, or %v", err)
	}
	r.Walk("L", "~lock: the agent is not running")
}

// TestReadOnly: in read-only mode the agent can be locked, since that takes nothing away, but
// not ended.
func TestReadOnly(t *testing.T) {
	r := busy(t, func(w *screentest.World) *screentest.Rig { return w.OpenReadOnly("4") })
	r.Walk("S", "~stop the agent: read-only mode", "L")
	locked(r)
}

// TestWaits: a program that waits for a yes is named above the log, as long as it waits.
func TestWaits(t *testing.T) {
	w := screentest.New(t)
	status := message.Status{Version: "1.0.0", PID: 4711, Started: ago(2 * time.Hour), Signatures: 14,
		Upstreams: []upstream.Status{{Enrollment: "prod-hsm", Server: "prod.example.com:6443", Requests: 311,
			Signatures: 14}},
		Sessions: []bridge.SessionStatus{{Enrollment: "prod-hsm", Client: process.ID{PID: 5120}, Requests: 12, Open: 1}},
		Consents: []message.ConsentStatus{{Enrollment: "prod-hsm", Client: process.ID{PID: 5121},
			Request: `delete pods "web-1" in "shop"`, Since: ago(4 * time.Second)}}}
	w.Told(status)
	r := w.Open("4")
	r.Walk("~14 signatures", "~agent 1.0.0, process 4711, up 2h", `~prod-hsm waits for consent: delete pods "web-1"`,
		"tab", "~connection to prod.example.com:6443", "~process 5120", "~12 requests, 1 open", "/", `"connection"`)
	r.Loses("12 requests, 1 open")
}

// TestLive: what is added to the log comes up by itself, and an agent that does not
// run is told, not started.
func TestLive(t *testing.T) {
	r := open(t)
	r.Sees("The agent is not running. It starts when kubectl needs it.")
	write(t, r.World, audit.Record{Time: ago(0), Event: audit.Lock, Reason: "idle"})
	r.Walk("~lock", "~idle", "L", "~lock: the agent is not running", "S", "~stop the agent: the agent is not running")
}

// TestCopies: the record as it is in the log, and the key's fingerprint.
func TestCopies(t *testing.T) {
	r := open(t)
	r.Walk("home", "f", "~copy fingerprint: the record names no key", "c", "~record copied")
	var got audit.Record
	if err := json.Unmarshal([]byte(r.Copied()), &got); err != nil || got.Event != audit.Denial || got.Code != 403 ||
		got.Request != "delete pods" {
		t.Errorf("copied %s: %v", r.Copied(), err)
	}
	r.Walk("down", "f", "~fingerprint copied")
	if r.Copied() != fingerprint {
		t.Errorf("copied %s", r.Copied())
	}
	r.Walk("tab", "c", "~copy record: no record is selected")
}

func TestFilter(t *testing.T) {
	r := open(t)
	r.Press("/", `"denial"`)
	r.Loses("sign-in")
	r.Walk("esc", "~sign-in")
}

// TestAgentUnit: what is shown to start the agent at login runs this program.
func TestAgentUnit(t *testing.T) {
	r := open(t)
	r.Walk("u", "~Start the agent at login", "~/usr/local/bin/kubehsm", "~copy file")
}
