package host

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// notice is what the prompt for the PIN tells, of the sign-in that asks for it.
func (r *rig) notice() string {
	r.t.Helper()
	script := hsmtest.NewScript(r.t, hsmtest.PIN(pin))
	_, err := r.prepare(r.dial(), caller(1), script)
	check(r.t, err)
	return script.PINs()[0].Purpose.Notice
}

// TestRecordIsSigned: a record is served only as its key has signed it, whatever its policy. A program
// that changes where it leads, which driver reaches the key, or what needs consent, ends its use.
func TestRecordIsSigned(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	good := r.e
	good.Policy = consent.Writes
	good = r.save(good)
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	for what, change := range map[string]func(*enrollment.Enrollment){
		"the server":      func(e *enrollment.Enrollment) { e.Cluster.Server += "0" },
		"the TLS name":    func(e *enrollment.Enrollment) { e.Cluster.TLSServerName = "127.0.0.1" },
		"the CA":          func(e *enrollment.Enrollment) { e.Cluster.CAData = nil },
		"no verification": func(e *enrollment.Enrollment) { e.Cluster.CAData, e.Cluster.InsecureSkipTLSVerify = nil, true },
		"a proxy":         func(e *enrollment.Enrollment) { e.Cluster.ProxyURL = "http://127.0.0.1:1" },
		"the key's URI":   func(e *enrollment.Enrollment) { e.Key.ModulePath = "/usr/lib/opensc-pkcs11.so" },
		"the policy":      func(e *enrollment.Enrollment) { e.Policy = consent.Session },
		"a rule":          func(e *enrollment.Enrollment) { e.Policy, e.Rules = consent.Rules, []consent.Rule{{DryRun: true}} },
		"no signature":    func(e *enrollment.Enrollment) { e.Signed = enrollment.Signed{} },
		"another text's": func(e *enrollment.Enrollment) {
			e.Signed.Text = strings.Replace(e.Signed.Text, "writes", "session", 1)
			e.Policy = "session"
		},
		"another enrollment's":    func(e *enrollment.Enrollment) { other := r.e; other.Name = "other"; e.Signed = r.signed(other).Signed },
		"another key's signature": func(e *enrollment.Enrollment) { e.Signed.Signature, err = consent.Sign(stranger, e.Signed.Text) },
	} {
		t.Run(what, func(t *testing.T) {
			changed := good
			change(&changed)
			check(t, err)
			check(t, r.store.Save(changed))
			_, err := r.prepare(r.dial(), caller(2), hsmtest.NewScript(t))
			if !errors.Is(err, enrollment.ErrUnsigned) || !strings.Contains(hint.Of(err), "kubehsm consent set prod --policy") {
				t.Errorf("served: %v, hint %q", err, hint.Of(err))
			}
			check(t, r.store.Save(good))
			if _, err := r.prepare(r.dial(), caller(2), hsmtest.NewScript(t)); err != nil {
				t.Errorf("as it was signed: %v", err)
			}
		})
	}
}

// TestVersionsOnlyRise: the running agent takes no earlier version, and says so. What it has seen
// is forgotten with the agent.
func TestVersionsOnlyRise(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	lower := r.e
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.policy(consent.Policy{Mode: consent.Always})
	r.mustAgent(func(a *agent) { a.targets.follow() })
	check(t, r.store.Save(lower))
	_, err := r.prepare(r.dial(), caller(2), hsmtest.NewScript(t))
	if !errors.Is(err, enrollment.ErrUnsigned) || !strings.Contains(err.Error(), "a later version") {
		t.Errorf("an earlier version: %v", err)
	}
	all := r.recordsOf(audit.Policy)
	if len(all) != 2 || all[0].Reason != "first" || all[1].Reason != "changed" || all[1].Policy != "always" {
		t.Fatalf("on record is %+v", all)
	}
	v, err := enrollment.Signed{Text: all[1].Statement, Signature: all[1].Signature}.Open(all[1].Key)
	if err != nil || v.Number != all[1].Number || v.Consent().Mode != consent.Always {
		t.Errorf("on record is %+v, %v", v, err)
	}
	lower.Signed = r.e.Signed // `kubehsm consent set` goes on from the version that it finds, by the clock at least
	r.save(lower)
	if _, err := r.prepare(r.dial(), caller(2), hsmtest.Typing(t, pin)); err != nil {
		t.Errorf("signed again: %v", err)
	}
}

// TestPolicyOfAnotherEnrollment: a request is asked about if any enrollment of the key says so, under
// whatever name it is used, and even if that enrollment's file is removed, cut or changed while the
// agent runs.
func TestPolicyOfAnotherEnrollment(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{idle: true})
	r.policy(consent.Policy{Mode: consent.Writes})
	other := r.e
	other.Name, other.Policy, other.Signed = "easy", consent.Session, enrollment.Signed{}
	other = r.save(other)
	chain, err := r.store.Certificate(r.e)
	check(t, err)
	check(t, r.store.SaveCertificate(other, chain))
	r.serve(Options{})
	program, _ := running(t)
	_, err = r.dial().Prepare(t.Context(), client.PrepareRequest{Enrollment: "easy", Purpose: as(program)},
		hsmtest.Typing(t, pin))
	check(t, err)
	p := &asker{answer: always(false, nil)}
	r.attended(program, p)
	refused := func(what string) {
		t.Helper()
		before := p.asked()
		s, err := r.dial().Prepare(t.Context(), client.PrepareRequest{Enrollment: "easy", Purpose: as(program)}, nil)
		check(t, err)
		r.mustAgent(func(a *agent) { a.answers.Forget() })
		resp, err := r.http(s).Post(r.ep.URL("easy")+pods, "application/json", nil)
		check(t, err)
		check(t, resp.Body.Close())
		if resp.StatusCode != http.StatusForbidden || p.asked() != before+1 {
			t.Errorf("%s: %s after %d questions", what, resp.Status, p.asked()-before)
		}
	}
	refused("as it is")
	file := filepath.Join(r.dirs.State, "enrollments", "prod.json")
	text, err := os.ReadFile(file)
	check(t, err)
	for what, lose := range map[string]func() error{
		"cut": func() error { return os.Truncate(file, 20) },
		"lowered": func() error {
			return os.WriteFile(file, []byte(strings.Replace(string(text), `"policy": "writes"`, `"policy": "session"`, 1)), 0o600)
		},
		"removed": func() error { return os.Remove(file) },
	} {
		check(t, lose())
		time.Sleep(othersAfter) // the file of another enrollment is looked at that often
		r.mustAgent(func(a *agent) { a.targets.follow() })
		refused(what)
		check(t, os.WriteFile(file, text, 0o600))
	}
}

// TestChangeIsTold: a later version ends the answers for its enrollment, goes on record, and is told at
// the next prompts until the token has taken a PIN that answers one.
func TestChangeIsTold(t *testing.T) {
	p := &asker{answer: always(true, nil)}
	r, program, c := consenting(t, rigOptions{}, consent.Writes, p)
	if code, _ := r.send(t.Context(), c, http.MethodPost, pods); code != served || p.asked() != 1 {
		t.Fatalf("%d, %d questions", code, p.asked())
	}
	r.policy(consent.Policy{Mode: consent.Always})
	_, c = r.sessionOf(program)
	if code, _ := r.send(t.Context(), c, http.MethodPost, pods); code != served || p.asked() != 2 {
		t.Fatalf("after the change: %d, %d questions", code, p.asked())
	}
	const told = "The record of prod was changed: Policy now always, was writes."
	if d := p.questions[1].Detail; !strings.HasPrefix(d, told) {
		t.Errorf("asked %q", d)
	}
	check(t, only(r.dial().Lock(t.Context())))
	junk := hsmtest.NewScript(t, hsmtest.PIN("junk"), hsmtest.Cancel())
	if _, err := r.prepare(r.dial(), caller(2), junk); err == nil {
		t.Error("junk is a PIN")
	}
	if n := r.notice(); !strings.Contains(n, told) {
		t.Errorf("after a yes and a wrong PIN, the prompt tells %q", n)
	}
	check(t, only(r.dial().Lock(t.Context())))
	if n := r.notice(); n != "" {
		t.Errorf("after the right PIN, the prompt tells %q", n)
	}
}

// TestAnswersAreSigned: the key signs what a yes is for, whatever its driver says of touch and PIN. A
// key that takes its PIN for each signature is asked about by that prompt; without the signature the
// answer is a no.
func TestAnswersAreSigned(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		token hsmtest.FakeOptions
		asked int
		how   string
	}{
		"no touch":       {hsmtest.FakeOptions{}, 1, "answer"},
		"a PIN for each": {hsmtest.FakeOptions{PINPolicy: hsm.PINAlways}, 0, "pin"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &asker{answer: always(true, nil), pin: pin}
			r, _, client := consenting(t, rigOptions{token: c.token}, consent.Writes, p)
			before := r.token.Signatures()
			if code, body := r.send(t.Context(), client, http.MethodPost, pods); code != served || p.asked() != c.asked {
				t.Fatalf("%d %s, %d questions", code, body, p.asked())
			}
			all := r.recordsOf(audit.Consent)
			if len(all) != 1 || all[0].Reason != c.how || r.token.Signatures() != before+1 {
				t.Fatalf("%+v, %d signatures", all, r.token.Signatures()-before)
			}
			check(t, consent.Verify(r.slot.Key.Public, all[0].Statement, all[0].Signature))
			r.mustAgent(func(a *agent) { a.answers.Forget() })
			r.token.Fail(hsmtest.OpSign, hsm.ErrBusy)
			if code, _ := r.send(t.Context(), client, http.MethodPost, pods); code != http.StatusForbidden {
				t.Errorf("without a signature: %d", code)
			}
		})
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
