package auditing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

const agentPID = 4711

// records writes to a log in a folder of its own.
func records(t *testing.T) (s *Records, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit.log")
	log, err := audit.Open(path)
	check(t, err)
	t.Cleanup(func() { _ = log.Close() }) // the test may have closed the log
	return NewRecords(log, path, agentPID, slog.New(slog.DiscardHandler)), path
}

func read(t *testing.T, path string) (all []audit.Record) {
	t.Helper()
	_, err := audit.Read(context.Background(), path, audit.Filter{}, func(r audit.Record) error {
		all = append(all, r)
		return nil
	})
	check(t, err)
	return all
}

func key(t *testing.T) hsm.URI {
	t.Helper()
	u, err := hsm.ParseURI("pkcs11:token=lab;serial=1;object=k?module-path=/lib/x.so&pin-source=file:/p")
	check(t, err)
	return u
}

func TestOutcome(t *testing.T) {
	for _, c := range []struct {
		err  error
		want audit.Outcome
		code string
	}{
		{nil, audit.Granted, ""},
		{hsm.ErrCancelled, audit.Cancelled, "cancelled"},
		{fmt.Errorf("waiting: %w", context.Canceled), audit.Cancelled, "context-canceled"},
		{message.ErrLocked, audit.Cancelled, "locked"},
		{hsm.ErrPINIncorrect, audit.Refused, "pin-incorrect"},
		{message.ErrNotClient, audit.Refused, "not-client"},
		{hsm.ErrNoToken, audit.Failed, "no-token"},
		{errors.New("the PIN was 847261"), audit.Failed, "other"},
	} {
		if got, code := Outcome(c.err); got != c.want || code != c.code {
			t.Errorf("%v: %s %q, want %s %q", c.err, got, code, c.want, c.code)
		}
	}
}

// TestWhatIsOnRecord: a record says which program used which token. It has nothing that may
// be a secret: no arguments, no path to the token or its PIN, and no malformed name.
func TestWhatIsOnRecord(t *testing.T) {
	s, path := records(t)
	e := enrollment.Enrollment{Name: "prod", KeyHash: "abc", Key: key(t)}
	e.Cluster.Server = "https://api.example:6443/path"
	q := Requester{Enrollment: "prod", Command: "kubectl --token=hunter2 get pods"}
	s.Unlocking(q, key(t))(hsm.ErrPINIncorrect)
	s.Signature(q, e, nil)
	s.Signature(Requester{}, e, nil)
	s.Signed(e, q, nil)
	s.Session(q, nil)
	s.Session(Requester{Enrollment: "../847261", Command: strings.Repeat("x", 99)}, enrollment.ErrUnknown)
	s.Denial(bridge.Denial{Code: 401, Reason: "no-certificate", Client: process.ID{PID: 1 << 30}})
	all := read(t, path)
	var lines []string
	for _, r := range all {
		client := ""
		if r.Client != nil {
			client = fmt.Sprintf("%d %q", r.Client.PID, r.Client.Command)
		}
		lines = append(lines, strings.Join([]string{string(r.Event), string(r.Outcome), r.Reason, r.Error, r.Enrollment,
			r.Server, client}, "|"))
		if r.Agent != agentPID {
			t.Errorf("%s: the agent is %d", r.Event, r.Agent)
		}
	}
	want := []string{
		`unlock|refused||pin-incorrect|prod||0 "kubectl"`,
		`signature|granted|sign-in||prod|api.example:6443|0 "kubectl"`,
		`signature|granted|reconnect||prod|api.example:6443|`,
		`signature|granted|external-signer||prod|api.example:6443|0 "kubectl"`,
		`session|granted|||prod||0 "kubectl"`,
		`session|refused||unknown-enrollment|||0 "` + strings.Repeat("x", 64) + `"`,
		`denial||no-certificate||||1073741824 ""`,
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("on record is\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	text, err := os.ReadFile(path)
	check(t, err)
	for _, secret := range []string{"hunter2", "847261", "x.so", "pin-source"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the log contains %q", secret)
		}
	}
}

// TestProblem: work goes on where the log cannot be written, and the status says so.
func TestProblem(t *testing.T) {
	s, path := records(t)
	s.Session(Requester{Enrollment: "prod"}, nil)
	if p := s.Problem(); p != "" {
		t.Errorf("a problem: %s", p)
	}
	check(t, s.To.Close())
	check(t, os.Remove(path))
	check(t, os.Mkdir(path, 0o700))
	s.Session(Requester{Enrollment: "prod"}, nil)
	if s.Problem() == "" {
		t.Error("no problem with a log that cannot be opened")
	}
	none := NewRecords(nil, "", agentPID, slog.New(slog.DiscardHandler))
	none.Session(Requester{Enrollment: "prod"}, nil)
	none.Recover()
	if p := none.Problem(); p != "" {
		t.Errorf("a problem without a log: %s", p)
	}
}

// TestShown: a client may add to its program's name what it does, and name no other program.
func TestShown(t *testing.T) {
	me := process.This()
	name := consent.CommandOf(me.PID)
	for told, want := range map[string]string{name + " get pods": name + " get pods", "kubectl get pods": name, "": name} {
		if name == "" {
			want = told // The system tells nothing.
		}
		if got := (Requester{Client: me, Command: told}).Shown(); got != want {
			t.Errorf("%q is shown as %q, want %q", told, got, want)
		}
	}
}
