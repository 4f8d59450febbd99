package session

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// policy is a policy of a mode.
func policy(mode consent.Mode) consent.Policy { return consent.Policy{Mode: mode} }

// set sets the policy of an enrollment and returns what is in force then.
func set(t testing.TB, e *env.Env, name string, mode consent.Mode, pin string) Consent {
	t.Helper()
	c, err := Agent{e}.SetConsent(t.Context(), name, policy(mode), hsmtest.NewScript(t, hsmtest.PIN(pin)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func inForce(t testing.TB, e *env.Env, name string) Consent {
	t.Helper()
	c, err := Agent{e}.Consent(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestConsentAtEveryStep: whatever fails while a policy is signed, it is the one of before, or
// the new one, and no try of the PIN is spent.
func TestConsentAtEveryStep(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to consent.Mode
	}{{"raised", consent.Writes, consent.Always}, {"lowered", consent.Always, consent.Writes}} {
		flowtest.UseCase{
			Name: c.name,
			World: func(t testing.TB) *flowtest.World {
				w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
				w.Enroll("prod-hsm", "jane")
				second := w.Enrolled(t, "prod-hsm", "second")
				if err := w.Env.Enrollments().Save(second); err != nil {
					t.Fatal(err)
				}
				set(t, w.Env, "prod-hsm", c.from, w.Card.PIN())
				return w
			},
			Answers: []hsmtest.Answer{hsmtest.PIN("123456")},
			Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
				_, err := Agent{w.Env}.SetConsent(ctx, "prod-hsm", policy(c.to), p)
				return err
			},
			Done: func(t testing.TB, w *flowtest.World) {
				for _, name := range []string{"prod-hsm", "second"} {
					now := inForce(t, w.Env, name)
					if now.Policy.Mode != c.to || !now.Signed() || now.Standing.Version.Number != 2 || len(now.SameKey()) != 1 {
						t.Errorf("%s: %s, version %d, signed %t", name, now.Policy, now.Standing.Version.Number, now.Signed())
					}
				}
			},
			Resumes: true,
		}.Try(t)
	}
}

// TestConsentHalfWritten: who is killed, or has a full disk, after the log was written and before
// the record was, has the strictest policy, and the next version mends it.
func TestConsentHalfWritten(t *testing.T) {
	for name, fail := range map[string]func(t *testing.T, record string) (mend func() error){
		"killed": func(t *testing.T, record string) func() error {
			before, err := os.ReadFile(record)
			if err != nil {
				t.Fatal(err)
			}
			return func() error { return os.WriteFile(record, before, 0o600) } // The record is back as it was.
		},
		"the record cannot be written": func(t *testing.T, record string) func() error {
			if err := errors.Join(os.Remove(record), os.MkdirAll(filepath.Join(record, "in the way"), 0o700)); err != nil {
				t.Fatal(err)
			}
			return func() error { return os.RemoveAll(record) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
			en := w.Enroll("prod-hsm", "jane")
			set(t, w.Env, "prod-hsm", consent.Always, w.Card.PIN())
			mend := fail(t, filepath.Join(w.Env.Dirs.State, "policies", en.KeyHash+".json"))
			_, err := Agent{w.Env}.SetConsent(t.Context(), "prod-hsm", policy(consent.Session),
				hsmtest.NewScript(t, hsmtest.PIN(w.Card.PIN())))
			if name != "killed" && (err == nil || !strings.Contains(hint.Of(err), "the strictest former policy applies")) {
				t.Errorf("%v, hint %q", err, hint.Of(err))
			}
			if err := mend(); err != nil {
				t.Fatal(err)
			}
			c := inForce(t, w.Env, "prod-hsm")
			if c.Policy.Mode != consent.Always || c.Standing.Problem == audit.NoProblem || c.Signed() {
				t.Errorf("%s, %q, signed %t", c.Policy, c.Standing.Problem, c.Signed())
			}
			c = set(t, w.Env, "prod-hsm", consent.Session, w.Card.PIN())
			if c.Policy.Asks() || c.Standing.Problem != audit.NoProblem || c.Standing.Version.Number < 3 {
				t.Errorf("%s, %q, version %d", c.Policy, c.Standing.Problem, c.Standing.Version.Number)
			}
		})
	}
}

// TestConsentTwoAtOnce: of two that set the policy of one key, by whatever enrollment, one is
// told to wait.
func TestConsentTwoAtOnce(t *testing.T) {
	t.Parallel() // it waits for a lock
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	w.Enroll("prod-hsm", "jane")
	if err := w.Env.Enrollments().Save(w.Enrolled(t, "prod-hsm", "second")); err != nil {
		t.Fatal(err)
	}
	up := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := Agent{w.Env}.SetConsent(ctx, "prod-hsm", policy(consent.Always), hsmtest.NewScript(t, hsmtest.Hang(up)))
		ended <- err
	}()
	<-up
	_, err := Agent{w.Env}.SetConsent(t.Context(), "second", policy(consent.Writes), hsmtest.NewScript(t))
	if err == nil || !strings.Contains(err.Error(), "is being worked on by another kubehsm") {
		t.Errorf("%v", err)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if c := set(t, w.Env, "second", consent.Writes, w.Card.PIN()); c.Policy.Mode != consent.Writes {
		t.Errorf("%s", c.Policy)
	}
}

// TestConsentIsTyped: the prompt for a less strict policy says that it takes no other answer than
// a person's, also when it is asked again.
func TestConsentIsTyped(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	w.Enroll("prod-hsm", "jane")
	set(t, w.Env, "prod-hsm", consent.Always, w.Card.PIN())
	script := hsmtest.NewScript(t, hsmtest.PIN("00000000"), hsmtest.PIN(w.Card.PIN()))
	if _, err := (Agent{w.Env}).SetConsent(t.Context(), "prod-hsm", policy(consent.Writes), script); err != nil {
		t.Fatal(err)
	}
	for _, q := range script.PINs() {
		if !q.Typed || q.Purpose.Action != "lower the consent policy" || q.Purpose.Cluster != "prod-hsm" {
			t.Errorf("asked %+v", q)
		}
	}
	records := policies(t, w.Env)
	if n := len(script.PINs()); n != 2 || len(records) != 2 || records[0].Lowered || !records[1].Lowered {
		t.Errorf("asked %d times, on record is %+v", n, records)
	}
}

// TestConsentCarriedOver: another key that comes in an enrollment's place signs its policy, and
// what is enrolled with a key has the key's policy.
func TestConsentCarriedOver(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	old := w.Enroll("prod-hsm", "jane")
	agent := Agent{w.Env}
	fresh := w.Generate(hsm.GenerateOptions{Label: "fresh", Slot: "9c"})
	hash, err := hsm.Fingerprint(fresh.Key.Public)
	if err != nil {
		t.Fatal(err)
	}
	to := old
	to.Key, to.KeyHash = fresh.URI, hash
	carry := func(pins ...hsmtest.Answer) error {
		token, err := w.Env.Drivers.Open(t.Context(), fresh.URI)
		if err != nil {
			t.Fatal(err)
		}
		defer token.Close()
		key, err := token.Signer(t.Context(), fresh.URI, fresh.Key.Public, hsmtest.NewScript(t, pins...))
		if err != nil {
			t.Fatal(err)
		}
		return errors.Join(agent.CarryConsent(t.Context(), old, to, key), token.Lock())
	}
	if err := carry(); err != nil { // session: nothing is signed
		t.Fatal(err)
	}
	set(t, w.Env, "prod-hsm", consent.Writes, w.Card.PIN())
	if err := carry(hsmtest.PIN(w.Card.PIN())); err != nil {
		t.Fatal(err)
	}
	stored, r, err := agent.Enrolled(t.Context(), to)
	if err != nil || stored.Policy != consent.Writes || r.Number != 1 {
		t.Errorf("%+v, %+v, %v", stored, r, err)
	}
	if err := errors.Join(agent.RecordPolicy(stored, r), w.Env.Enrollments().Save(stored)); err != nil {
		t.Fatal(err)
	}
	if c := inForce(t, w.Env, "prod-hsm"); c.Policy.Mode != consent.Writes || !c.Signed() || c.Enrollment.KeyHash != hash {
		t.Errorf("%s, signed %t", c.Policy, c.Signed())
	}
	records := policies(t, w.Env)
	if last := records[len(records)-1]; agent.Signatures().Verify(last) != nil || last.Reason != audit.PolicyEnrolled {
		t.Errorf("%+v", last)
	}
	if err := carry(); err != nil { // once more: it is signed already
		t.Error(err)
	}
}

// TestConsentStaysStrict: what an enrollment asks for that no key has signed stays, when it goes,
// with the others of the key.
func TestConsentStaysStrict(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	w.Enroll("prod-hsm", "jane")
	second := w.Enrolled(t, "prod-hsm", "second")
	second.Policy, second.Rules = consent.Rules, []consent.Rule{{Verbs: []string{"get"}, Resources: []string{"secrets"}}}
	store := w.Env.Enrollments()
	if err := store.Save(second); err != nil {
		t.Fatal(err)
	}
	before := inForce(t, w.Env, "prod-hsm")
	if before.Signed() || before.Policy.String() != second.Consent().String() {
		t.Errorf("%s, signed %t", before.Policy, before.Signed())
	}
	if err := errors.Join(Agent{w.Env}.StayStrict(t.Context(), second), store.Delete("second")); err != nil {
		t.Fatal(err)
	}
	if c := inForce(t, w.Env, "prod-hsm"); !c.Policy.Covers(before.Policy) {
		t.Errorf("%s is less strict than %s", c.Policy, before.Policy)
	}
	if records := policies(t, w.Env); len(records) != 1 || records[0].Enrollment != "prod-hsm" || records[0].Lowered {
		t.Errorf("%+v", records)
	}
	gone := enrollment.Enrollment{Name: "gone", KeyHash: second.KeyHash}
	if err := (Agent{w.Env}).StayStrict(t.Context(), gone); err != nil {
		t.Error(err)
	}
}

// TestConsentAfterTheLastNumber: what a program has had signed under the policy session, of
// whatever number, keeps nobody from a stricter policy, and another enrollment that cannot be
// read does not either.
func TestConsentAfterTheLastNumber(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	en := w.Enroll("prod-hsm", "jane")
	chain, err := w.Env.Enrollments().Certificate(en)
	if err != nil {
		t.Fatal(err)
	}
	v, err := consent.Next(chain[0].PublicKey, 1<<60, "", policy(consent.Session), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text, err := v.Text()
	if err != nil {
		t.Fatal(err)
	}
	ahead := audit.Record{Reason: audit.PolicySet, Policy: "session", Statement: text, Signature: sign(t, w, en.Key, text)}
	damaged := filepath.Join(w.Env.Dirs.State, "enrollments", "damaged.json")
	if err := errors.Join(Agent{w.Env}.RecordPolicy(en, ahead), os.WriteFile(damaged, []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []consent.Mode{consent.Writes, consent.Always, consent.Session} {
		c, err := Agent{w.Env}.SetConsent(t.Context(), "prod-hsm", policy(mode), hsmtest.Typing(t, w.Card.PIN()))
		if err != nil {
			t.Fatal(err)
		}
		if c.Policy.Mode != mode || !c.Standing.Signed() || c.Standing.Problem != audit.NoProblem {
			t.Errorf("%s: in force is %s, %q", mode, c.Policy, c.Standing.Problem)
		}
	}
}
