package enroll

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// scene is a world with an empty card and an agent, whose cluster approves and signs
// whatever is filed.
func scene(t testing.TB) *flowtest.World {
	t.Helper()
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane", "dev")
	w.Server.Signs(true)
	flowtest.Agent(t, w.Env)
	return w
}

// TestEnroll: wherever an enrollment fails, the same command finishes it the second time,
// with one key, one request and one entry. No step that failed counts as done.
func TestEnroll(t *testing.T) {
	flowtest.UseCase{Name: "enroll", World: scene, Answers: []hsmtest.Answer{hsmtest.PIN("123456")}, Resumes: true,
		Leaves: []string{""}, // the progress record, with which the enrollment goes on
		// an answer of any kind is enough
		Passes: append(flowtest.Failing("get configmaps"), "=forbidden: create selfsubjectreviews",
			"=500: create selfsubjectreviews",
			"500: get certificatesigningrequests", "cut: get certificatesigningrequests", // the wait goes on
			"forbidden: get /version", "500: get /version", "=cut: get /version"),
		// the wait has no end, or the agent repeats its refusal for a while, or looks after the token beside
		// what it does
		Skips: []string{"gone: get certificatesigningrequests", "gone: get configmaps", "cut: get /version (2)",
			"removed: info (4)"},
		Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
			o := enrolling.Options{Name: "prod-hsm", User: "jane", Timeout: 2 * time.Second, AcceptForecast: true}
			r, err := NewEnroller(w.Env).Enroll(ctx, o, p, nil)
			text, rerr := os.ReadFile(w.Env.Kubeconfig)
			if rerr != nil {
				t.Error(rerr)
			}
			in := strings.Contains(string(text), "current-context: prod-hsm")
			if err == nil && (r.User != "jane" || !in) || err != nil && in {
				err = errors.Join(err, errors.New("the kubeconfig was changed too early, or not at all"))
			}
			return err
		}}.Try(t)
}

// enrolled is scene with the enrollment prod-hsm.
func enrolled(t testing.TB) *flowtest.World {
	t.Helper()
	w := scene(t)
	_, err := NewEnroller(w.Env).Enroll(t.Context(), enrolling.Options{Name: "prod-hsm", User: "jane"},
		hsmtest.Typing(t, w.Card.PIN()), nil)
	if err == nil {
		err = token.LockAgent(t.Context(), w.Env)
	}
	must.OK(t, err)
	return w
}

// TestRenew: wherever a renewal fails, the old certificate stays in use until the new one is
// there, and the same command finishes the renewal the second time.
func TestRenew(t *testing.T) {
	in := func(w *flowtest.World) string { // the certificate that is in use
		en := load(t, w, "prod-hsm")
		chain, err := w.Env.Enrollments().Certificate(en)
		must.OK(t, err)
		return string(chain[0].Signature)
	}
	var old string
	flowtest.UseCase{Name: "renew", World: func(t testing.TB) *flowtest.World {
		w := enrolled(t)
		old = in(w)
		return w
	}, Answers: []hsmtest.Answer{hsmtest.PIN("123456")},
		// the progress record, with which the renewal goes on
		Leaves: []string{""},
		Skips:  []string{"forbidden", "500", "gone", "cut", "ctrl-c: get", "ctrl-c: create"}, // the same as in TestEnroll
		Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
			_, err := NewRenewer(w.Env).Renew(ctx, "prod-hsm",
				RenewOptions{Options: enrolling.Options{Timeout: 2 * time.Second}}, p, nil)
			if err == nil && in(w) == old {
				err = errors.New("the old certificate is in use")
			}
			return err
		}}.Try(t)
	w := enrolled(t)
	if _, err := NewRenewer(w.Env).Renew(t.Context(), "other", RenewOptions{}, hsmtest.NewScript(t), nil); !errors.Is(err,
		enrollment.ErrUnknown) {
		t.Errorf("of what is not enrolled: %v", err)
	}
	w.Server.Gone()
	if _, err := NewRenewer(w.Env).Renew(t.Context(), "prod-hsm", RenewOptions{}, hsmtest.Typing(t, w.Card.PIN()),
		nil); err == nil || hinting.Of(err) == "" {
		t.Errorf("where nobody answers: %v, hint %q", err, hinting.Of(err))
	}
}

// TestRenewCarriesThePolicy: a new key signs the consent policy of the key in whose place it
// comes, with the request, and an enrollment anew of the same key keeps it.
func TestRenewCarriesThePolicy(t *testing.T) {
	w := enrolled(t)
	agent := session.Agent{Env: w.Env}
	nodes := consent.Policy{Mode: consent.Rules, Rules: []consent.Rule{{Resources: []string{"nodes"}}}}
	before, err := agent.SetConsent(t.Context(), "prod-hsm", nodes, hsmtest.Typing(t, w.Card.PIN()))
	must.OK(t, err)
	for _, newKey := range []bool{false, true} {
		o := RenewOptions{NewKey: newKey, Options: enrolling.Options{Generate: hsm.GenerateOptions{Slot: "9c"}}}
		if !newKey {
			o.Options = enrolling.Options{}
		}
		if _, err := NewRenewer(w.Env).Renew(t.Context(), "prod-hsm", o, hsmtest.Typing(t, w.Card.PIN()), nil); err != nil {
			t.Fatal(err)
		}
		c, err := agent.Consent("prod-hsm")
		must.OK(t, err)
		if c.Policy().String() != nodes.String() || c.Problem != nil ||
			!newKey && c.Version.Number != before.Version.Number ||
			(c.Enrollment.KeyHash == before.Enrollment.KeyHash) == newKey {
			t.Errorf("a new key: %t: %+v", newKey, c)
		}
	}
}

// TestExpiring: a person is told which certificates end, and which cannot be read.
func TestExpiring(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	en := w.Enroll("prod-hsm", "jane")
	anew := en.Anew()
	en.Name, en.KeyHash = "broken", strings.Repeat("0", 64)
	must.OK(t, w.Env.Enrollments().Save(en))
	all, err := NewRenewer(w.Env).Expiring(time.Now())
	if err != nil || len(all) != 2 || all[0].Err == nil || all[1].Name != "prod-hsm" || all[1].Err != nil ||
		all[1].NotAfter.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
	good := all[1]
	if c := good.Renewal(good.NotAfter.Add(-time.Hour)); c != "kubehsm certificate renew prod-hsm" {
		t.Errorf("it is renewed by %s", c)
	}
	if c := good.Renewal(good.NotAfter); c != anew {
		t.Errorf("after its end it is renewed by %s", c)
	}
	must.OK(t, os.WriteFile(filepath.Join(w.Env.Dirs.State, "enrollments", "torn.json"), []byte("{"), 0o600))
	if some, err := NewRenewer(w.Env).Expiring(time.Now()); err == nil || len(some) != 2 {
		t.Errorf("with a damaged record: %+v, %v", some, err)
	}
	must.OK(t, os.Remove(filepath.Join(w.Env.Dirs.State, "enrollments", "torn.json")))
	warnings, err := NewRenewer(w.Env).ExpiryWarnings()
	due := 0
	for _, x := range all {
		if x.Due {
			due++
		}
	}
	if err != nil || len(warnings) != due {
		t.Errorf("%q for %d, %v", warnings, due, err)
	}
}

// TestReview: a review says what an enrollment would do. It changes nothing and asks nobody;
// a note says why there is no forecast.
func TestReview(t *testing.T) {
	flowtest.UseCase{Name: "review", World: func(t testing.TB) *flowtest.World {
		w := scene(t)
		must.OK(t, errors.Join(w.Env.Dirs.Prepare(), home.MakeDir(w.Env.ProgressDir())))
		return w
	},
		Passes: []string{"forbidden", "500", "gone", "cut", "ctrl-c: create", "ctrl-c: get", "ctrl-c: list"},
		Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			r, err := NewEnroller(w.Env).Review(ctx, enrolling.Options{Name: "prod-hsm", User: "jane"})
			if err == nil && (r.Server != w.Server.URL || !strings.Contains(r.KubeconfigDiff, "prod-hsm") ||
				len(r.Forecast)+len(r.Notes) == 0) {
				err = errors.New("something is missing")
			}
			return err
		}}.Try(t)
}

// TestTakeCertificate: a certificate that was sent belongs to the enrollment that waits for
// it, or is refused with a hint.
func TestTakeCertificate(t *testing.T) {
	w := enrolled(t)
	other := w.Generate(hsm.GenerateOptions{Slot: "9d"})
	j, err := enrolling.NewStore(w.Env).Load("prod-hsm")
	must.OK(t, err)
	now := time.Now()
	certificate := func(u hsm.URI, user string) []byte {
		return certificateFor(t, w.Env, u, user, now.Add(-time.Hour), now.Add(time.Hour))
	}
	joins, before := NewJoins(w.Env), w.State()
	for name, c := range map[string]struct {
		enrollment string
		pem        []byte
		want       error
		hint       string
	}{
		"another key's":  {"prod-hsm", certificate(other.URI, "jane"), hsm.ErrKeyMismatch, "see --name"},
		"another user's": {"prod-hsm", certificate(j.Request.Key, "joe"), nil, "ask who issued it"},
		"not begun":      {"other", certificate(other.URI, "jane"), os.ErrNotExist, "--name"},
		"no certificate": {"prod-hsm", []byte("x"), nil, ""},
	} {
		if err := joins.TakeCertificate(t.Context(), c.enrollment, c.pem); err == nil || c.want != nil &&
			!errors.Is(err, c.want) || !strings.Contains(hinting.Of(err), c.hint) {
			t.Errorf("%s: %v, hint %q", name, err, hinting.Of(err))
		}
	}
	w.Unchanged(before)
	own := certificate(j.Request.Key, "jane")
	must.OK(t, joins.TakeCertificate(t.Context(), "prod-hsm", own))
	if j, err = enrolling.NewStore(w.Env).Load("prod-hsm"); err != nil || string(j.Certificate) != string(own) {
		t.Errorf("the record has %q, %v", j.Certificate, err)
	}
	if err := joins.Begun("none"); err == nil {
		t.Error("what was not begun was")
	}
}

// TestSignInAtTheEnd: where the certificate does not sign in, the kubeconfig stays and the
// next run asks for another certificate. A user who signs in without rights is told what to
// send to an admin.
func TestSignInAtTheEnd(t *testing.T) {
	w := scene(t)
	w.Server.Fail(401, "get /version")
	o := enrolling.Options{Name: "prod-hsm", User: "jane"}
	_, err := NewEnroller(w.Env).Enroll(t.Context(), o, hsmtest.Typing(t, w.Card.PIN()), nil)
	hint := hinting.Of(err)
	if err == nil || !strings.Contains(hint, "--client-ca-file") ||
		!strings.Contains(hint, "the kubeconfig was not changed") {
		t.Errorf("rejected: %v, hint %q", err, hint)
	}
	if j, err := enrolling.NewStore(w.Env).Load("prod-hsm"); err != nil || !j.Rejected || j.Finished() {
		t.Errorf("rejected: %v", err)
	}
	w = scene(t)
	w.Server.Forbid("*")
	o.AcceptForecast = true
	r, err := NewEnroller(w.Env).Enroll(t.Context(), o, hsmtest.Typing(t, w.Card.PIN()), nil)
	if err != nil || r.Rights || !strings.HasPrefix(r.Ask,
		"kubectl create clusterrolebinding jane-view --clusterrole=view --user=jane") {
		t.Errorf("without rights: %+v, %v", r, err)
	}
}

// TestRenewSignsNoChangedPolicy: what another program writes into the record while a certificate is renewed is not signed.
func TestRenewSignsNoChangedPolicy(t *testing.T) {
	for _, newKey := range []bool{false, true} {
		w := enrolled(t)
		agent := session.Agent{Env: w.Env}
		want := consent.Policy{Mode: consent.Rules, Rules: []consent.Rule{{Resources: []string{"nodes"}}}}
		if _, err := agent.SetConsent(t.Context(), "prod-hsm", want, hsmtest.Typing(t, w.Card.PIN())); err != nil {
			t.Fatal(err)
		}
		o := RenewOptions{NewKey: newKey}
		if newKey {
			o.Options = enrolling.Options{Generate: hsm.GenerateOptions{Slot: "9c"}}
		}
		var once sync.Once
		change := func(e enrolling.Event) {
			if e.Step != enrolling.StepRequest {
				return
			}
			once.Do(func() {
				en, err := w.Env.Enrollments().Load("prod-hsm")
				if en.Policy, en.Rules = consent.Session, nil; err == nil {
					err = w.Env.Enrollments().Save(en)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		if _, err := NewRenewer(w.Env).Renew(t.Context(), "prod-hsm", o, hsmtest.Typing(t, w.Card.PIN()).Lax(), change); err != nil {
			t.Fatal(err)
		}
		if c, err := agent.Consent("prod-hsm"); err != nil || c.Problem != nil || c.Policy().String() != want.String() {
			t.Errorf("with a new key %t: %v, %v, policy %q", newKey, err, c.Problem, c.Policy())
		}
	}
}
