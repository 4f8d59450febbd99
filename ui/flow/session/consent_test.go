package session

import (
	"errors"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// guarded returns an enrollment called prod-hsm that asks before every request,
// and the token with its key.
func guarded(t *testing.T) (*env.Env, *hsmtest.FakeToken) {
	t.Helper()
	e, fake := flowtest.Env(t)
	card := fake.Add(hsmtest.FakeOptions{Label: "blue"})
	keys := token.Keys{Env: e}
	slot, err := keys.Generate(t.Context(), card.Info().URI(), hsm.GenerateOptions{Label: "prod-hsm"},
		hsmtest.Typing(t, card.PIN()))
	if err != nil {
		t.Fatal(err)
	}
	hash, err := hsm.Fingerprint(slot.Key.Public)
	if err != nil {
		t.Fatal(err)
	}
	en := enrollment.Enrollment{Name: "prod-hsm", Cluster: cluster.Cluster{Server: "https://10.0.0.1:6443"},
		Key: slot.URI, KeyHash: hash, User: "jane", Created: time.Now().UTC(), Policy: consent.Always}
	if err := errors.Join(e.Dirs.Prepare(), e.Enrollments().Save(en)); err != nil {
		t.Fatal(err)
	}
	return e, card
}

// policies are the changes of policies on record.
func policies(t *testing.T, e *env.Env) (all []audit.Record) {
	t.Helper()
	if _, err := audit.Read(t.Context(), audit.Path(e.Dirs), audit.Filter{}, func(r audit.Record) error {
		all = append(all, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestConsentRaised: a stricter policy is signed by the key too, and whatever answers for its
// PIN will do.
func TestConsentRaised(t *testing.T) {
	e, card := guarded(t)
	agent := Agent{Env: e}
	writes, always := consent.Policy{Mode: consent.Writes}, consent.Policy{Mode: consent.Always}
	if _, err := agent.SetConsent(t.Context(), "prod-hsm", writes, hsmtest.Typing(t, card.PIN())); err != nil {
		t.Fatal(err)
	}
	script := hsmtest.NewScript(t, hsmtest.PIN(card.PIN()))
	c, err := agent.SetConsent(t.Context(), "prod-hsm", always, script)
	if err != nil {
		t.Fatal(err)
	}
	if q := script.PINs()[0]; q.Typed || q.Purpose.Action != "sign the consent policy" {
		t.Errorf("asked %+v", q)
	}
	if c.Policy.Mode != consent.Always || !c.Signed() || c.Standing.Version.Number != 2 ||
		c.Enrollment.Host() != "10.0.0.1:6443" {
		t.Errorf("%s, version %d, signed %t", c.Policy, c.Standing.Version.Number, c.Signed())
	}
	if records := policies(t, e); len(records) != 2 || records[1].Lowered || records[1].Number != 2 ||
		agent.Signatures().Verify(records[1]) != nil {
		t.Errorf("%+v", records)
	}
	card.Unplug() // the policy in force takes nothing
	if _, err := agent.SetConsent(t.Context(), "prod-hsm", always, hsmtest.NewScript(t)); err != nil {
		t.Error(err)
	}
	_, err = agent.SetConsent(t.Context(), "prod-hsm", writes, hsmtest.NewScript(t))
	if !errors.Is(err, hsm.ErrNoToken) {
		t.Errorf("without the token: %v", err)
	}
}

// TestConsentRaisedByTheAgent: with a token that the agent holds unlocked, a stricter policy takes
// no PIN, and a less strict one takes it all the same. The token stays unlocked.
func TestConsentRaisedByTheAgent(t *testing.T) {
	w := served(t)
	agent := Agent{w.Env}
	if err := agent.Unlock(t.Context(), "prod-hsm", hsmtest.Typing(t, w.Card.PIN())); err != nil {
		t.Fatal(err)
	}
	for i, mode := range []consent.Mode{consent.Writes, consent.Always} {
		c, err := agent.SetConsent(t.Context(), "prod-hsm", policy(mode), hsmtest.NewScript(t))
		if err != nil || c.Policy.Mode != mode || !c.Signed() || c.Standing.Version.Number != uint64(i+1) {
			t.Fatalf("%s: %+v, %v", mode, c.Standing, err)
		}
		if is, err := unlocked(t.Context(), w); !is || err != nil {
			t.Errorf("%s: unlocked %t, %v", mode, is, err)
		}
	}
	script := hsmtest.NewScript(t, hsmtest.Cancel())
	_, err := agent.SetConsent(t.Context(), "prod-hsm", policy(consent.Writes), script)
	if !errors.Is(err, hsm.ErrCancelled) || len(script.PINs()) != 1 || !script.PINs()[0].Typed {
		t.Errorf("a lower policy: %v, asked %+v", err, script.PINs())
	}
	if c := inForce(t, w.Env, "prod-hsm"); c.Policy.Mode != consent.Always {
		t.Errorf("the policy is %s", c.Policy)
	}
}

// TestConsents: asked for at once, policies are those that each enrollment gives alone.
func TestConsents(t *testing.T) {
	e, _ := guarded(t)
	first, err := e.Enrollments().Load("prod-hsm")
	if err != nil {
		t.Fatal(err)
	}
	second := first
	second.Name, second.Policy = "stage-hsm", consent.Session
	if err := e.Enrollments().Save(second); err != nil {
		t.Fatal(err)
	}
	a := Agent{Env: e}
	all, err := a.Consents(t.Context(), []enrollment.Enrollment{first, second})
	if err != nil || len(all) != 2 {
		t.Fatalf("%d, %v", len(all), err)
	}
	for _, c := range all {
		alone, err := a.Consent(t.Context(), c.Enrollment.Name)
		if err != nil || c.Policy.Mode != consent.Always || c.Policy.String() != alone.Policy.String() ||
			len(c.SameKey()) != 1 || c.SameKey()[0].Name != alone.SameKey()[0].Name || c.Standing.Problem != alone.Standing.Problem {
			t.Errorf("%+v\nalone: %+v, %v", c, alone, err)
		}
	}
}
