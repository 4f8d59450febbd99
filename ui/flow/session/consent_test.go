package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// policy is a policy of a mode.
func policy(mode consent.Mode) consent.Policy { return consent.Policy{Mode: mode} }

func inForce(t testing.TB, w *flowtest.World, name string) Consent {
	t.Helper()
	c, err := Agent{w.Env}.Consent(name)
	must.OK(t, err)
	return c
}

// TestConsentIsSigned: each change of a policy, a stricter one too, is signed by the key with a PIN that is given
// for that, even if the token is unlocked; the prompt shows what is signed. It is the enrollment's own.
func TestConsentIsSigned(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	en := w.Enroll("prod-hsm", "jane")
	other := w.Signed(w.Enrolled(t, "prod-hsm", "other"))
	must.OK(t, w.Env.Enrollments().Save(other))
	agent := Agent{w.Env}
	last := inForce(t, w, "prod-hsm").Version.Number
	for _, mode := range []consent.Mode{consent.Always, consent.Writes} {
		script := hsmtest.NewScript(t, hsmtest.PIN(w.Card.PIN()))
		c, err := agent.SetConsent(t.Context(), "prod-hsm", policy(mode), script)
		if err != nil || c.Problem != nil || c.Policy().Mode != mode || c.Version.Number <= last {
			t.Fatalf("%s: %+v, %v", mode, c, err)
		}
		last = c.Version.Number
		asked := script.PINs()[0]
		if shown := fmt.Sprint(asked.Purpose.Fields); !asked.Typed || !strings.Contains(shown, en.Cluster.Server) ||
			!strings.Contains(shown, string(mode)) {
			t.Errorf("asked %+v", asked)
		}
	}
	if c := inForce(t, w, "other"); c.Policy().Asks() || len(c.Also) != 1 || c.Also[0].Name != "prod-hsm" {
		t.Errorf("the other enrollment of the key: %+v", c)
	}
	w.Card.Unplug() // the policy that is set takes nothing
	if _, err := agent.SetConsent(t.Context(), "prod-hsm", policy(consent.Writes), hsmtest.NewScript(t)); err != nil {
		t.Error(err)
	}
	if _, err := agent.SetConsent(t.Context(), "prod-hsm", policy(consent.Always), hsmtest.NewScript(t)); !errors.Is(err,
		hsm.ErrNoToken) {
		t.Errorf("without the token: %v", err)
	}
	if _, err := agent.SetConsent(t.Context(), "none", consent.Policy{}, nil); !errors.Is(err, enrollment.ErrUnknown) {
		t.Errorf("of what is not enrolled: %v", err)
	}
}

// TestSignAgain: a record that was changed says so and does not count; the command that sets its policy has the
// key sign it again. A token that only looks like the key's does not do.
func TestSignAgain(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	en := w.Enroll("prod-hsm", "jane")
	store := w.Env.Enrollments()
	en.Cluster.TLSServerName = "api.example"
	must.OK(t, store.Save(en))
	if c := inForce(t, w, "prod-hsm"); !errors.Is(c.Problem, enrollment.ErrUnsigned) || c.Settled(c.Policy()) {
		t.Errorf("%+v", c)
	}
	c, err := Agent{w.Env}.SetConsent(t.Context(), "prod-hsm", policy(consent.Session), hsmtest.Typing(t, w.Card.PIN()))
	if err != nil || c.Problem != nil || c.Version.Cluster.TLSServerName != "api.example" {
		t.Errorf("%+v, %v", c, err)
	}
	en.KeyHash = strings.Repeat("0", 64)
	if _, err := (Agent{w.Env}).Sign(t.Context(), en, hsmtest.NewScript(t)); !errors.Is(err, hsm.ErrKeyMismatch) {
		t.Errorf("another key: %v", err)
	}
}

// TestConsentAtEveryStep: whatever fails while a policy is signed, it is the one of before, or
// the new one, and no try of the PIN is spent.
func TestConsentAtEveryStep(t *testing.T) {
	flowtest.UseCase{
		Name: "set",
		World: func(t testing.TB) *flowtest.World {
			w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
			w.Enroll("prod-hsm", "jane")
			return w
		},
		Answers: []hsmtest.Answer{hsmtest.PIN("123456")},
		Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
			_, err := Agent{w.Env}.SetConsent(ctx, "prod-hsm", policy(consent.Always), p)
			return err
		},
		Done: func(t testing.TB, w *flowtest.World) {
			if c := inForce(t, w, "prod-hsm"); c.Problem != nil || c.Policy().Mode != consent.Always {
				t.Errorf("%+v", c)
			}
		},
		Resumes: true,
	}.Try(t)
}

// TestRecordThatCannotBeWritten: a policy that cannot be stored does not come into force.
func TestRecordThatCannotBeWritten(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	w.Enroll("prod-hsm", "jane")
	dir := w.Env.Dirs.State + "/enrollments"
	p := ask.From(hsmtest.Typing(t, w.Card.PIN()))
	_, err := Agent{w.Env}.SetConsent(t.Context(), "prod-hsm", policy(consent.Always), ask.Func(
		func(ctx context.Context, q ask.Question) (ask.Answer, error) {
			a, err := p(ctx, q)
			if _, gone := os.Stat(dir + "/prod-hsm.json"); q.PIN != nil && gone == nil { // a file takes the folder's place
				err = errors.Join(err, os.Rename(dir, dir+".away"), os.WriteFile(dir, nil, 0o600))
			}
			return a, err
		}).Prompter())
	must.OK(t, errors.Join(os.Remove(dir), os.Rename(dir+".away", dir)))
	if c := inForce(t, w, "prod-hsm"); err == nil || c.Problem != nil || c.Policy().Asks() {
		t.Errorf("%v: %+v", err, c)
	}
}
