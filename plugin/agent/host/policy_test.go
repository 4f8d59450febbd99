package host

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/poll"
)

// onRecord are the policy records as "reason enrollment was>policy".
func (r *rig) onRecord() (lines []string) {
	r.t.Helper()
	for _, rec := range r.recordsOf(audit.Policy) {
		line := rec.Reason + " " + rec.Enrollment
		if rec.Was != "" || rec.Policy != "" {
			line += " " + rec.Was + ">" + rec.Policy
		}
		if rec.Lowered {
			line += " lowered"
		}
		lines = append(lines, line)
	}
	return lines
}

func (r *rig) wantOnRecord(want ...string) {
	r.t.Helper()
	if got := r.onRecord(); !slices.Equal(got, want) {
		r.t.Errorf("on record is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// enrolledWith puts the enrollment on record with a policy, as enrolling does.
func (r *rig) enrolledWith(p consent.Policy) {
	r.t.Helper()
	r.policy(p)
	check(r.t, audit.Append(audit.Path(r.dirs),
		audit.Record{Event: audit.Policy, Reason: audit.PolicyEnrolled, Enrollment: r.e.Name,
			Key: r.e.KeyHash, Token: auditing.Public(r.e.Key), Policy: p.String()}))
}

// notice is what the prompt for the PIN tells, of the sign-in that asks for it.
func (r *rig) notice() string {
	r.t.Helper()
	script := hsmtest.NewScript(r.t, hsmtest.PIN(pin))
	_, err := r.prepare(r.dial(), caller(1), script)
	check(r.t, err)
	return script.PINs()[0].Purpose.Notice
}

// TestPolicyEditedForAMinute: the policy in the enrollment's file is lowered while
// kubectl runs, and set back. Both are on record, the token is locked, so that nothing
// goes on without the PIN, and the next prompt tells of it.
func TestPolicyEditedForAMinute(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	r.enrolledWith(consent.Policy{Mode: consent.Writes})
	r.serve(Options{})
	if n := r.notice(); n != "" {
		t.Errorf("the first prompt tells: %s", n)
	}
	client, _ := running(t)
	s, c := r.sessionOf(client)
	r.policy(consent.Policy{})
	if _, err := r.prepare(r.dial(), client, nil); err == nil {
		t.Error("it goes on without the PIN")
	}
	if code, body := r.send(t.Context(), c, http.MethodPost, pods); code != http.StatusUnauthorized {
		t.Errorf("the session of before (until %s) goes on: %d %s", s.Expires, code, body)
	}
	r.policy(consent.Policy{Mode: consent.Writes})
	n := r.notice()
	for _, words := range []string{"The consent policy of prod was changed in its file from writes to session, which is less strict", "from session to writes (found on"} {
		if !strings.Contains(n, words) {
			t.Errorf("the prompt tells %q, which lacks %q", n, words)
		}
	}
	if again := func() string { check(t, only(r.dial().Lock(t.Context()))); return r.notice() }(); again != "" {
		t.Errorf("told again: %s", again)
	}
	r.wantOnRecord("enrolled prod >writes", "found prod writes>session lowered", "found prod session>writes", "told prod")
}

// TestPolicySetByKubehsm: what the command has put on record is told too, and locks
// nothing, as it has taken the PIN.
func TestPolicySetByKubehsm(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	r.enrolledWith(consent.Policy{Mode: consent.Writes})
	r.serve(Options{})
	r.notice()
	check(t, audit.Append(audit.Path(r.dirs),
		audit.Record{Event: audit.Policy, Reason: audit.PolicySet, Enrollment: "prod", Key: r.e.KeyHash,
			Token: auditing.Public(r.e.Key), Was: "writes", Policy: "session", Lowered: true}))
	r.policy(consent.Policy{})
	if _, err := r.prepare(r.dial(), caller(2), nil); err != nil {
		t.Error(err)
	}
	check(t, only(r.dial().Lock(t.Context())))
	if n := r.notice(); !strings.Contains(n, "was set from writes to session, which is less strict") {
		t.Errorf("told %q", n)
	}
	r.wantOnRecord("enrolled prod >writes", "set prod writes>session lowered", "told prod")
}

// TestPolicyOfAnotherEnrollment: the strictest policy of any enrollment with the key
// counts for the key, under whatever name it is used, and its loss is told.
func TestPolicyOfAnotherEnrollment(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{idle: true})
	r.enrolledWith(consent.Policy{Mode: consent.Writes})
	other := r.e
	other.Name, other.Policy = "easy", consent.Session
	check(t, r.store.Save(other))
	chain, err := r.store.Certificate(r.e)
	check(t, err)
	check(t, r.store.SaveCertificate(other, chain))
	r.serve(Options{})
	r.notice()
	program, _ := running(t)
	s, err := r.dial().Prepare(t.Context(), client.PrepareRequest{Enrollment: "easy", Purpose: as(program)},
		hsmtest.Typing(t, pin))
	check(t, err)
	p := &asker{answer: always(false, nil)}
	r.attended(program, p)
	resp, err := r.http(s).Post(r.ep.URL("easy")+pods, "application/json", nil)
	check(t, err)
	check(t, resp.Body.Close())
	if resp.StatusCode != http.StatusForbidden || p.asked() != 1 {
		t.Errorf("%s after %d questions", resp.Status, p.asked())
	}
	for name, lose := range map[string]func(file string) error{
		"truncated": func(file string) error { return os.Truncate(file, 20) },
		"removed":   os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(r.dirs.State, "enrollments", "prod.json")
			before, err := os.ReadFile(file)
			check(t, err)
			check(t, lose(file))
			poll.Until(t, "it does not go on without the PIN", func() bool { // see othersAfter
				_, err := r.prepareAs("easy", nil)
				return err != nil
			})
			script := hsmtest.NewScript(t, hsmtest.PIN(pin))
			_, err = r.prepareAs("easy", script)
			check(t, err)
			if n := script.PINs()[0].Purpose.Notice; !strings.Contains(n, "The enrollment prod is gone (found on ") ||
				!strings.Contains(n, "Its consent policy writes no longer applies") {
				t.Errorf("told %q", n)
			}
			check(t, os.WriteFile(file, before, 0o600))
			check(t, only(r.dial().Lock(t.Context())))
			r.prepareAs("easy", hsmtest.NewScript(t, hsmtest.PIN(pin)))
		})
	}
}

func (r *rig) prepareAs(name string, p hsm.Prompter) (message.Session, error) {
	c := r.dial()
	defer c.Close()
	return c.Prepare(r.t.Context(), client.PrepareRequest{Enrollment: name, Purpose: as(caller(7))}, p)
}

// TestPolicyWithoutALog: what is not known is said. A log that is removed while the
// agent runs takes nothing along.
func TestPolicyWithoutALog(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	r.enrolledWith(consent.Policy{Mode: consent.Writes})
	check(t, os.Remove(audit.Path(r.dirs)))
	r.policy(consent.Policy{})
	r.serve(Options{})
	if n := r.notice(); !strings.Contains(n,
		"The audit log had no record of the consent policy of prod, which is session") {
		t.Errorf("told %q", n)
	}
	check(t, os.Remove(audit.Path(r.dirs)))
	r.mustAgent(func(a *agent) { a.records.Recover() })
	_, lines := r.records()
	if !slices.Equal(lines, []string{"log-lost"}) {
		t.Errorf("on record is %q", lines)
	}
	r.wantOnRecord("kept prod >session")
	r.end()
	r.serve(Options{}) // another agent
	if n := r.notice(); n != "" {
		t.Errorf("told %q", n)
	}
}

// TestPolicyIsToldWithAQuestion: a question about a request tells too.
func TestPolicyIsToldWithAQuestion(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	r.enrolledWith(consent.Policy{Mode: consent.Writes})
	r.serve(Options{})
	r.notice()
	client, _ := running(t)
	r.policy(consent.Policy{Mode: consent.Always}) // stricter: nothing is locked
	_, c := r.sessionOf(client)
	p := &asker{answer: always(true, nil)}
	r.attended(client, p)
	if code, body := r.send(t.Context(), c, http.MethodPost, pods); code != served {
		t.Fatalf("%d %s", code, body)
	}
	if d := p.questions[0].Detail; !strings.HasPrefix(d,
		"The consent policy of prod was changed in its file from writes to always (found on") {
		t.Errorf("asked %q", d)
	}
}

// TestAgentSignsRaisedPolicies: the agent signs a version that is no less strict, of the key that
// it holds unlocked, and nothing else: no lower policy, no other text, and nothing while it is
// locked.
func TestAgentSignsRaisedPolicies(t *testing.T) {
	r := newRig(t, rigOptions{})
	text := func(mode consent.Mode) string {
		v, err := consent.Next(r.slot.Key.Public, 1, "", consent.Policy{Mode: mode}, time.Now())
		check(t, err)
		text, err := v.Text()
		check(t, err)
		return text
	}
	sign := func(text string) ([]byte, bool, error) {
		return r.dial().SignPolicy(t.Context(), r.e.Name, text, hsmtest.NewScript(t))
	}
	if signature, held, err := sign(text(consent.Writes)); held || err != nil || signature != nil {
		t.Errorf("locked: held %t, %v", held, err)
	}
	check(t, r.dial().Unlock(t.Context(), r.e.Name, hsmtest.Typing(t, pin)))
	raised := text(consent.Writes)
	signature, held, err := sign(raised)
	if err != nil || !held {
		t.Fatalf("held %t, %v", held, err)
	}
	v, err := consent.Signed{Text: raised, Signature: signature}.Open(r.e.KeyHash)
	if err != nil || v.Consent().Mode != consent.Writes {
		t.Errorf("%+v, %v", v, err)
	}
	if last := r.recordsOf(audit.Signature); len(last) != 1 || last[0].Reason != "policy" || last[0].Enrollment != r.e.Name {
		t.Errorf("on record: %+v", last)
	}

	r.policy(consent.Policy{Mode: consent.Writes})
	if _, held, err = sign(text(consent.Always)); err != nil || !held {
		t.Errorf("stricter still: held %t, %v", held, err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	foreign, err := consent.Next(other.Public(), 1, "", consent.Policy{Mode: consent.Always}, time.Now())
	check(t, err)
	foreignText, err := foreign.Text()
	check(t, err)
	for what, text := range map[string]string{"a lower policy": text(consent.Session), "another key's": foreignText,
		"no policy": "kubehsm consent v1\n{}", "nothing": "",
		"rules": strings.Replace(text(consent.Always), "always", "rules: verbs=get", 1),
	} {
		if signature, held, err := sign(text); err == nil || held || signature != nil {
			t.Errorf("%s: held %t, %v", what, held, err)
		}
	}
	check(t, only(r.dial().Lock(t.Context())))
	if _, held, err := sign(text(consent.Always)); held || err != nil {
		t.Errorf("locked again: held %t, %v", held, err)
	}
}

// unlocked is a rig with the real identities, a policy and an unlocked token, and
// the person that is asked.
func unlocked(t *testing.T, token hsmtest.FakeOptions) (*rig, *asker) {
	r := newRig(t, rigOptions{idle: true, token: token})
	r.policy(consent.Policy{Mode: consent.Writes})
	r.serve(Options{identify: identify})
	_, err := r.prepare(r.dial(), process.This(), hsmtest.Typing(t, pin))
	check(t, err)
	p := &asker{answer: always(true, nil)}
	r.attended(process.ID{}, p)
	r.unattended()
	return r, p
}
