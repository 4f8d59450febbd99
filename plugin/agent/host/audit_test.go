package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/consent"
)

// recordsOf are those of an event, "" for all.
func (r *rig) recordsOf(event audit.Event) (all []audit.Record) {
	r.t.Helper()
	damaged, err := audit.Read(context.Background(), audit.Path(r.dirs), audit.Filter{}, func(rec audit.Record) error {
		if event == "" || rec.Event == event {
			all = append(all, rec)
		}
		return nil
	})
	check(r.t, err)
	if damaged != 0 {
		r.t.Fatalf("%d damaged lines", damaged)
	}
	return all
}

// records is the audit log as lines of "event outcome reason error".
func (r *rig) records() (all []audit.Record, lines []string) {
	r.t.Helper()
	for _, rec := range r.recordsOf("") {
		if rec.Event == audit.Policy { // see policy_test.go
			continue
		}
		all = append(all, rec)
		lines = append(lines, strings.Join(strings.Fields(string(rec.Event)+" "+string(rec.Outcome)+" "+rec.Reason+" "+
			rec.Error), " "))
	}
	return all, lines
}

func (r *rig) recorded(want ...string) []audit.Record {
	r.t.Helper()
	all, lines := r.records()
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		r.t.Fatalf("on record is\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	return all
}

func TestAudit(t *testing.T) {
	r := newRig(t, rigOptions{})
	_, err := r.prepare(r.dial(), caller(1), hsmtest.NewScript(t, hsmtest.PIN("555123"), hsmtest.Cancel()))
	if !errors.Is(err, hsm.ErrCancelled) {
		t.Fatal(err)
	}
	c := r.dial()
	s, err := r.prepare(c, caller(2), hsmtest.NewScript(t, hsmtest.PIN(pin)))
	check(t, err)
	_, err = r.prepare(c, caller(2), nil) // the same certificate: no new record
	check(t, err)
	_, err = c.Prepare(context.Background(), client.PrepareRequest{Enrollment: "../" + pin, Purpose: as(caller(3))}, nil)
	if err == nil {
		t.Fatal("that is no name")
	}
	for range 50 {
		req, err := http.NewRequest(http.MethodPost, r.ep.URL("prod")+"/api/v1/secrets?token="+pin,
			strings.NewReader("body "+pin))
		check(t, err)
		req.Header.Set("Authorization", "Bearer "+pin)
		resp, err := r.http(s).Do(req)
		check(t, err)
		check(t, resp.Body.Close())
		if resp.StatusCode != 401 {
			t.Fatal(resp.Status)
		}
	}
	check(t, only(r.dial().Lock(context.Background())))
	if code, _ := r.get(s, "/version"); code != 401 {
		t.Fatal(code)
	}
	check(t, r.dial().Unlock(context.Background(), "prod", hsmtest.NewScript(t, hsmtest.PIN(pin))))
	check(t, only(r.dial().Stop(context.Background())))
	check(t, <-r.done)
	r.done = nil

	all := r.recorded(
		"agent-start",
		"unlock cancelled cancelled",
		"session cancelled cancelled",
		"unlock granted",
		"signature granted sign-in",
		"session granted",
		"session refused invalid-enrollment",
		"denial authorization",
		"lock asked",
		"denial unknown-session",
		"unlock granted",
		"agent-stop asked",
		"denial authorization", // the others
	)
	sig, session, denial := all[4], all[5], all[12]
	if sig.Key != r.e.KeyHash || sig.Enrollment != "prod" || "https://"+sig.Server != r.api.URL || sig.Client == nil ||
		sig.Token.Token != r.e.Key.Token || sig.Token.Object != "" {
		t.Errorf("%+v", sig)
	}
	if c := session.Client; c == nil || c.PID != os.Getpid() ||
		c.Command != cmp.Or(consent.CommandOf(os.Getpid()), "kubectl") || session.Enrollment != "prod" {
		t.Errorf("%+v", session)
	}
	if denial.Count != 49 || denial.Code != 401 || all[11].Version != "" || all[0].Version != "test" ||
		all[0].Agent != os.Getpid() {
		t.Errorf("%+v", all)
	}
	if u := all[10]; u.Client == nil || u.Client.Command != cmp.Or(consent.CommandOf(os.Getpid()), "kubehsm") ||
		u.Enrollment != "prod" {
		t.Errorf("%+v", u)
	}
	b, err := os.ReadFile(audit.Path(r.dirs))
	check(t, err)
	b = regexp.MustCompile(`"time":"[^"]*"`).ReplaceAll(b, nil)              // may be any number
	b = regexp.MustCompile(`"statement":"([^"\\]|\\.)*"`).ReplaceAll(b, nil) // has the key's whole URI
	for _, secret := range []string{pin, "555123", "BEGIN", "Bearer", "secrets", "get pods", "?"} {
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("%q is on record:\n%s", secret, b)
		}
	}
	info, err := os.Stat(audit.Path(r.dirs))
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Error(info.Mode())
	}
}

// A connection that a request needs anew is another reason to sign, and one that
// fails in a loop is counted.
func TestAuditReconnect(t *testing.T) {
	r := newRig(t, rigOptions{})
	s := r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.agent.targets.route("prod").Forget()
	r.disconnected()
	if code, _ := r.get(s, "/version"); code != 200 {
		t.Fatal(code)
	}
	r.token.Fail(hsmtest.OpSign, hsm.ErrNoToken) // and nobody notices that it is gone, which locks
	r.agent.targets.route("prod").Forget()
	r.disconnected()
	for range 5 {
		if code, _ := r.get(s, "/version"); code != 401 {
			t.Fatal(code)
		}
	}
	r.end()
	all := r.recorded("agent-start", "unlock granted", "signature granted sign-in", "session granted",
		"signature granted reconnect", "signature failed reconnect no-token", "agent-stop signal", "signature failed reconnect no-token")
	if all[7].Count < 4 {
		t.Errorf("%+v", all[7])
	}
}

// The work goes on if the log cannot be written, but not silently.
func TestAuditFails(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.mustAgent(func(a *agent) { check(t, a.records.To.Close()); check(t, os.Mkdir(audit.Path(r.dirs)+".x", 0o700)) })
	check(t, os.Remove(audit.Path(r.dirs)))
	check(t, os.Rename(audit.Path(r.dirs)+".x", audit.Path(r.dirs)))
	if code, _ := r.get(r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin))), "/version"); code != 200 {
		t.Fatal(code)
	}
	if st := r.status(); !strings.Contains(st.AuditError, "audit.log") {
		t.Fatalf("%+v", st)
	}
}

func TestDenialsAreNamed(t *testing.T) {
	r := newRig(t, rigOptions{})
	s := r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	do := func(url string, change func(*http.Request)) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, url, nil)
		check(t, err)
		change(req)
		resp, err := r.http(s).Do(req)
		check(t, err)
		check(t, resp.Body.Close())
	}
	do(r.ep.URL("prod"), func(q *http.Request) { q.Host = "evil.example" })
	do(r.ep.URL("prod"), func(q *http.Request) { q.Header.Set("Origin", "https://evil.example") })
	do("https://"+r.ep.Address()+"/c//"+pin, func(*http.Request) {})
	do(r.ep.URL("other"), func(*http.Request) {})
	r.end()
	all, lines := r.records()
	got := strings.Join(lines, ",")
	for _, reason := range []string{bridge.DeniedHost, bridge.DeniedBrowser, bridge.DeniedPath, bridge.DeniedEnrollment} {
		if !strings.Contains(got, "denial "+reason+",") {
			t.Errorf("no denial %q in %s", reason, got)
		}
	}
	for _, rec := range all {
		if rec.Reason == bridge.DeniedEnrollment &&
			(rec.Enrollment != "prod" || rec.Client == nil || rec.Client.PID != os.Getpid()) {
			t.Errorf("%+v", rec)
		}
	}
}
