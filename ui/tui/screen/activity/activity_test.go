package activity_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

const fingerprint = "3b1f0c6de1c54cf5b9be9a3e6c1fb0a70d4a9e1da8a40f2f51f3c79a6d0c2e11"

// write adds records to the log of a world, as an agent does.
func write(t *testing.T, w *screentest.World, records ...audit.Record) {
	t.Helper()
	if err := w.Env.Dirs.Prepare(); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := audit.Append(audit.Path(w.Env.Dirs), r); err != nil {
			t.Fatal(err)
		}
	}
}

func ago(d time.Duration) time.Time { return tuitest.Now().Add(-d) }

// open shows the screen over a log of a signature and of a request that was turned
// away. No agent runs.
func open(t *testing.T) *screentest.Rig {
	t.Helper()
	w := screentest.New(t)
	write(t, w,
		audit.Record{Time: ago(2 * time.Hour), Event: audit.Signature, Outcome: audit.Granted, Reason: "sign-in", Enrollment: "prod-hsm", Key: fingerprint},
		audit.Record{Time: ago(time.Hour), Event: audit.Denial, Code: 403, Enrollment: "prod-hsm", Request: "delete pods"})
	r := w.Open("4")
	r.Sees("signature", "sign-in", "denial", "delete pods")
	return r
}

// TestLive: what is added to the log comes up by itself, and an agent that does not
// run is told, not started.
func TestLive(t *testing.T) {
	r := open(t)
	r.Sees("The agent is not running. It starts when kubectl needs it.")
	write(t, r.World, audit.Record{Time: ago(0), Event: audit.Lock, Reason: "idle"})
	r.Sees("lock", "idle")
	r.Press("L")
	r.Sees("lock: the agent is not running")
	r.Press("S")
	r.Sees("stop the agent: the agent is not running")
}

// TestCopies: the record as it is in the log, and the key's fingerprint.
func TestCopies(t *testing.T) {
	r := open(t)
	r.Press("home", "f")
	r.Sees("copy fingerprint: the record names no key")
	r.Press("c")
	r.Sees("record copied")
	var got audit.Record
	if err := json.Unmarshal([]byte(r.Copied()), &got); err != nil || got.Event != audit.Denial || got.Code != 403 || got.Request != "delete pods" {
		t.Errorf("copied %s: %v", r.Copied(), err)
	}
	r.Press("down", "f")
	r.Sees("fingerprint copied")
	if r.Copied() != fingerprint {
		t.Errorf("copied %s", r.Copied())
	}
	r.Press("tab", "c")
	r.Sees("copy record: no record is selected")
}

func TestFilter(t *testing.T) {
	r := open(t)
	r.Press("/", `"denial"`)
	r.Loses("sign-in")
	r.Press("esc")
	r.Sees("sign-in")
}

// TestMoveBridge: the port is moved and the kubeconfig entries follow, after a yes.
func TestMoveBridge(t *testing.T) {
	w := screentest.New(t)
	card := w.Cards.Add(hsmtest.FakeOptions{Serial: "12345678"})
	key := w.Generate(card, hsm.GenerateOptions{Algorithm: hsm.ECDSAP256, Slot: "9a"})
	w.Enroll("prod-hsm", key, w.Certify(card, key, "jane"))
	before, err := w.Env.Bridge()
	if err != nil {
		t.Fatal(err)
	}
	r := w.Open("4")
	r.Sees("The agent is not running")
	r.Press("b")
	r.Sees("The agent ends, which cuts")
	r.Press(`"80"`, "enter")
	r.Sees("a number from 1024 to 65535")
	r.Press("backspace", "backspace", `"27001"`, "enter")
	r.Sees("Move it?", "to 127.0.0.1:27001", "written anew: prod-hsm")
	r.Press("n")
	r.Sees("Move the bridge: cancelled")
	if now, err := w.Env.Bridge(); err != nil || now.Port != before.Port {
		t.Fatalf("on port %d, %v", now.Port, err)
	}
	r.Press("b")
	r.Sees("The agent ends, which cuts")
	r.Press(`"27001"`, "enter")
	r.Sees("Move it?")
	r.Press("y")
	r.Sees("the bridge has moved")
	if now, err := w.Env.Bridge(); err != nil || now.Port != 27001 {
		t.Errorf("on port %d, %v", now.Port, err)
	}
	w.HasKubeconfig("https://127.0.0.1:27001/c/prod-hsm")
}

// TestAgentUnit: what is shown to start the agent at login runs this program.
func TestAgentUnit(t *testing.T) {
	r := open(t)
	r.Press("u")
	r.Sees("Start the agent at login", "/usr/local/bin/kubehsm", "copy file")
}
